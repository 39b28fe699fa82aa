//! The type, the default and the meaning of a field, as the tables of the reference page show them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use schemars::schema_for;

use crate::api::PodSettings;

/// Name and schema of a field.
pub(super) type Field<'a> = (&'a str, &'a JSONSchemaProps);

/// Returns the pod settings of a component, if it takes all of them, and its other fields.
pub(super) fn split(schema: &JSONSchemaProps) -> (Option<JSONSchemaProps>, Vec<Field<'_>>) {
    let settings = schema_for!(PodSettings);
    let names = settings
        .get("properties")
        .and_then(|fields| fields.as_object());
    let is_pod = |name: &str| names.is_some_and(|names| names.contains_key(name));
    let (pod, own): (Vec<_>, Vec<_>) = properties(schema).partition(|(name, _)| is_pod(name));
    if names.is_none_or(|names| pod.len() < names.len()) {
        return (None, properties(schema).collect());
    }
    let text = settings.get("description").and_then(|text| text.as_str());
    let pod = JSONSchemaProps {
        description: text.map(str::to_owned),
        properties: Some(
            pod.into_iter()
                .map(|(name, field)| (name.to_owned(), field.clone()))
                .collect(),
        ),
        ..JSONSchemaProps::default()
    };
    (Some(pod), own)
}

/// Returns the object that gets a section, with the mark of a list behind the field: the field itself or its items. An
/// object of Kubernetes is shown as a type, and one with a single field as that field.
pub(super) fn section(field: &JSONSchemaProps) -> Option<(&'static str, &JSONSchemaProps)> {
    let is_ours = |schema: &JSONSchemaProps| {
        properties(schema).any(|(_, field)| field.description.is_some())
            && property(schema, "lastTransitionTime").is_none()
    };
    if is_ours(field) {
        return only_field(field).is_none().then_some(("", field));
    }
    match &field.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) if is_ours(item) => Some(("[]", item)),
        _ => None,
    }
}

/// Returns the field of an object that has a single one.
pub(super) fn only_field(object: &JSONSchemaProps) -> Option<Field<'_>> {
    let mut fields = properties(object);
    let field = fields.next()?;
    let is_value = section(field.1).is_none();
    (fields.next().is_none() && is_value).then_some(field)
}

/// Returns the default of a field for a table.
pub(super) fn default(field: &JSONSchemaProps) -> String {
    let value = field.default.as_ref();
    value.map_or_else(String::new, |value| format!("`{}`", value.0))
}

pub(super) fn properties(
    schema: &JSONSchemaProps,
) -> impl Iterator<Item = (&str, &JSONSchemaProps)> {
    let all = schema.properties.iter().flatten();
    all.map(|(name, field)| (name.as_str(), field))
}

pub(super) fn property<'a>(schema: &'a JSONSchemaProps, name: &str) -> Option<&'a JSONSchemaProps> {
    schema.properties.as_ref()?.get(name)
}

/// Returns the type with its bounds, such as `integer, 0 to 1000` or `list of string`.
pub(super) fn kind(schema: &JSONSchemaProps) -> String {
    if let Some(values) = &schema.enum_ {
        let values: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", value.0))
            .collect();
        return values.join(" or ");
    }
    let base = schema.type_.as_deref().unwrap_or("any");
    let base = match (&schema.items, &schema.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(item)), _) => format!("list of {}", kind(item)),
        (_, Some(JSONSchemaPropsOrBool::Schema(value))) => format!("map to {}", kind(value)),
        _ if schema.x_kubernetes_int_or_string == Some(true) => "quantity".to_owned(),
        _ => base.to_owned(),
    };
    match (schema.minimum, schema.maximum) {
        (Some(least), Some(most)) => format!("{base}, {least} to {most}"),
        (Some(least), None) => format!("{base}, at least {least}"),
        _ => base,
    }
}

/// Returns the description as one line for a table.
pub(super) fn sentence(schema: &JSONSchemaProps) -> String {
    let text = schema.description.as_deref().unwrap_or_default();
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// Returns the text up to the end of its first sentence.
pub(super) fn first_sentence(text: &str) -> String {
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].to_owned()
}
