//! The admission of a resource: the structural schema, then the CEL rules.
//!
//! Like the API server, it removes unknown fields, and nulls where the schema allows none, before it checks.

use std::collections::{BTreeMap, BTreeSet};

use kube_cel::{CompiledSchema, Validator, compile_schema};
use kube_core::CustomResourceExt;
use regex::Regex;
use serde_json::{Value, json};

use crate::api::ShortenerStack;

/// The checks of the resource definition.
pub struct Admission {
    /// Schema of the spec.
    pub spec: Value,
    rules: CompiledSchema,
    validator: Validator,
    patterns: BTreeMap<String, Regex>,
}

impl Admission {
    /// Compiles the checks.
    pub fn of_the_definition() -> Self {
        let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut patterns = BTreeMap::new();
        collect_patterns(schema, &mut patterns);
        Self {
            spec: schema["properties"]["spec"].clone(),
            rules: compile_schema(schema),
            validator: Validator::new(),
            patterns,
        }
    }

    /// Returns the spec as it would be stored, if it has the structure of the schema.
    ///
    /// # Errors
    /// The refusals, each with the path of a field.
    pub fn store(&self, spec: &Value) -> Result<Value, Vec<String>> {
        let (mut spec, mut refusals) = (spec.clone(), Vec::new());
        self.check(&self.spec, &mut spec, "spec", &mut refusals);
        if refusals.is_empty() {
            Ok(spec)
        } else {
            Err(refusals)
        }
    }

    /// Checks a spec that has this structure by the rules.
    ///
    /// # Errors
    /// The refusals, each with the path of a field.
    pub fn judge(&self, stored: &Value) -> Result<(), Vec<String>> {
        let mut stack = json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortenerStack",
            "metadata": {"name": "acme", "namespace": "links"},
            "spec": stored,
        });
        // For the rules of the API server, a field that is null is not there.
        remove_nulls(&mut stack);
        let judged = self.validator.validate_compiled(&self.rules, &stack, None);
        let Err(errors) = judged else { return Ok(()) };
        let errors = errors.as_slice().iter();
        let refusals = errors.map(|error| format!("{}: {}", error.field_path, error.message));
        Err(refusals.collect())
    }

    fn check(&self, schema: &Value, value: &mut Value, path: &str, refusals: &mut Vec<String>) {
        let mut refuse = |what: &str| refusals.push(format!("{path}: {what}"));
        // A list of values refuses what it lacks, also null of a nullable field.
        if let Some(known) = schema["enum"].as_array()
            && !known.contains(value)
        {
            refuse("is none of the known values");
            return;
        }
        if value.is_null() {
            if schema["nullable"] != true {
                refuse("must not be null");
            }
            return;
        }
        match schema["type"].as_str() {
            Some("object") => self.check_object(schema, value, path, refusals),
            Some("array") => self.check_list(schema, value, path, refusals),
            Some("string") if !value.is_string() => refuse("must be a text"),
            Some("string") => self.check_text(schema, value, path, refusals),
            Some("boolean") if !value.is_boolean() => refuse("must be true or false"),
            Some("boolean") => {}
            Some(_) => check_number(schema, value, path, refusals),
            None if value.is_string() => self.check_text(schema, value, path, refusals),
            None => check_number(schema, value, path, refusals),
        }
    }

    fn check_object(
        &self,
        schema: &Value,
        value: &mut Value,
        path: &str,
        refusals: &mut Vec<String>,
    ) {
        let Some(fields) = value.as_object_mut() else {
            refusals.push(format!("{path}: must be an object"));
            return;
        };
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        let others = &schema["additionalProperties"];
        let field = |name: &str| match &schema["properties"][name] {
            Value::Null => others.is_object().then_some(others),
            known => Some(known),
        };
        fields.retain(|name, value| {
            let schema = field(name);
            schema.is_some_and(|schema| !value.is_null() || schema["nullable"] == true)
        });
        for name in schema["required"].as_array().into_iter().flatten() {
            if name.as_str().is_none_or(|name| !fields.contains_key(name)) {
                refusals.push(format!("{path}: {name} is required"));
            }
        }
        if exceeds(schema, "maxProperties", fields.len()) {
            refusals.push(format!("{path}: has too many entries"));
        }
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = field(name) {
                self.check(schema, value, &format!("{path}.{name}"), refusals);
            }
        }
    }

    fn check_list(
        &self,
        schema: &Value,
        value: &mut Value,
        path: &str,
        refusals: &mut Vec<String>,
    ) {
        let Some(items) = value.as_array_mut() else {
            refusals.push(format!("{path}: must be a list"));
            return;
        };
        let few = schema["minItems"].as_u64();
        if few.is_some_and(|few| (items.len() as u64) < few) {
            refusals.push(format!("{path}: has too few items"));
        }
        if exceeds(schema, "maxItems", items.len()) {
            refusals.push(format!("{path}: has too many items"));
        }
        let keys = &schema["x-kubernetes-list-map-keys"];
        let identity = |item: &Value| match keys.as_array() {
            Some(keys) => keys
                .iter()
                .map(|key| item[key.as_str().unwrap_or_default()].to_string())
                .collect(),
            None => item.to_string(),
        };
        let different: BTreeSet<String> = items.iter().map(identity).collect();
        let is_unique = matches!(
            schema["x-kubernetes-list-type"].as_str(),
            Some("set" | "map")
        );
        if is_unique && different.len() < items.len() {
            refusals.push(format!("{path}: has an item twice"));
        }
        for item in items {
            self.check(&schema["items"], item, path, refusals);
        }
    }

    fn check_text(&self, schema: &Value, value: &Value, path: &str, refusals: &mut Vec<String>) {
        let text = value.as_str().unwrap_or_default();
        let length = text.chars().count();
        let short = schema["minLength"].as_u64();
        if short.is_some_and(|short| (length as u64) < short) {
            refusals.push(format!("{path}: is too short"));
        }
        if exceeds(schema, "maxLength", length) {
            refusals.push(format!("{path}: is too long"));
        }
        let pattern = schema["pattern"].as_str();
        if pattern.is_some_and(|pattern| !self.patterns[pattern].is_match(text)) {
            refusals.push(format!("{path}: does not match the pattern"));
        }
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

fn check_number(schema: &Value, value: &Value, path: &str, refusals: &mut Vec<String>) {
    let mut refuse = |what: &str| refusals.push(format!("{path}: {what}"));
    let Some(number) = value.as_i64() else {
        refuse("must be a whole number");
        return;
    };
    if schema["format"] == "int32" && i32::try_from(number).is_err() {
        refuse("must be a number of 32 bits");
    }
    let limit = |name: &str| schema[name].as_f64();
    let number = value.as_f64().unwrap_or_default();
    if limit("minimum").is_some_and(|minimum| number < minimum) {
        refuse("is too small");
    }
    if limit("maximum").is_some_and(|maximum| number > maximum) {
        refuse("is too large");
    }
}

fn exceeds(schema: &Value, limit: &str, number: usize) -> bool {
    schema[limit]
        .as_u64()
        .is_some_and(|limit| number as u64 > limit)
}

fn collect_patterns(schema: &Value, patterns: &mut BTreeMap<String, Regex>) {
    match schema {
        Value::Object(fields) => {
            if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
                let compile = || Regex::new(pattern).unwrap();
                patterns.entry(pattern.to_owned()).or_insert_with(compile);
            }
            for field in fields.values() {
                collect_patterns(field, patterns);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_patterns(item, patterns);
            }
        }
        _ => {}
    }
}
