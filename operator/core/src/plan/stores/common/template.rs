//! The template of what another operator runs for a store: the fields that users who edit a stack may set, and how it is
//! merged.

use serde_json::{Map, Value};

use crate::plan::error::ValidateError;

/// What a template may set.
pub(in crate::plan::stores) struct Template {
    /// Field of the spec that has the template.
    pub(in crate::plan::stores) field: &'static str,
    /// Fields that the policy `Restricted` admits, with all that is below them. None refers to a Secret, a ServiceAccount
    /// or another cluster, opens a way in, or changes the labels by which others select pods.
    pub(in crate::plan::stores) admitted: &'static [&'static str],
    /// Fields that no policy admits, with the problem and the remedy.
    pub(in crate::plan::stores) never: &'static [(&'static str, &'static str)],
}

impl Template {
    /// Checks a template. `restricted` tells that the policy for pod templates is `Restricted`.
    ///
    /// # Errors
    /// It sets a field that the spec has elsewhere, or that the policy does not admit.
    pub(in crate::plan::stores) fn check(
        &self,
        template: &Map<String, Value>,
        restricted: bool,
    ) -> Result<(), ValidateError> {
        let mut never = self.never.iter();
        if let Some((path, problem)) = never.find(|(path, _)| has(template, path)) {
            return Err(self.refusal((*path).to_owned(), problem));
        }
        match self.refused("", template).filter(|_| restricted) {
            Some(path) => Err(self.refusal(
                path,
                "is not admitted by podTemplatePolicy Restricted of the operator: remove it, or ask an administrator of the cluster for Unrestricted",
            )),
            None => Ok(()),
        }
    }

    fn refusal(&self, path: String, problem: &str) -> ValidateError {
        ValidateError::ClusterTemplate {
            field: self.field,
            path,
            problem: problem.to_owned(),
        }
    }

    /// Returns the first path that is not admitted.
    fn refused(&self, above: &str, fields: &Map<String, Value>) -> Option<String> {
        fields.iter().find_map(|(key, value)| {
            let path = format!("{above}{key}");
            if self.admitted.contains(&path.as_str()) {
                return None;
            }
            let below = format!("{path}.");
            let mut admitted = self.admitted.iter();
            let leads_on = admitted.any(|admitted| admitted.starts_with(&below));
            match value {
                Value::Object(fields) if leads_on => self.refused(&below, fields),
                _ => Some(path),
            }
        })
    }
}

/// Returns a spec with a template merged over it.
pub(in crate::plan::stores) fn merged(
    mut spec: Value,
    template: Map<String, Value>,
) -> Map<String, Value> {
    json_patch::merge(&mut spec, &Value::Object(template));
    match spec {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns true when fields have one at a path.
fn has(fields: &Map<String, Value>, path: &str) -> bool {
    match path.split_once('.') {
        None => fields.contains_key(path),
        Some((key, rest)) => {
            let below = fields.get(key).and_then(Value::as_object);
            below.is_some_and(|below| has(below, rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEMPLATE: Template = Template {
        field: "store.cluster",
        admitted: &["image", "affinity.nodeAffinity"],
        never: &[("setup.secret", "would hide the Secret: remove it")],
    };

    fn found(template: Value, restricted: bool) -> Option<String> {
        let error = TEMPLATE.check(template.as_object().unwrap(), restricted);
        Some(error.err()?.to_string())
    }

    #[test]
    fn the_restricted_policy_admits_the_fields_of_the_list_and_what_is_below_them() {
        let plain = json!({"image": "x", "affinity": {"nodeAffinity": {"below": [1]}}});
        assert_eq!(found(plain, true), None);
        for (template, path) in [
            (json!({"affinity": {"other": {}}}), "affinity.other"),
            (json!({"affinity": null}), "affinity"),
            (json!({"fieldOfALaterVersion": 1}), "fieldOfALaterVersion"),
        ] {
            let message = found(template.clone(), true).unwrap_or_default();
            let named = format!("store.cluster.template: {path} is not admitted");
            assert!(message.starts_with(&named), "{message}");
            assert_eq!(found(template, false), None);
        }
    }

    #[test]
    fn no_policy_admits_what_would_break_the_stack() {
        let template = json!({"setup": {"secret": {"name": "mine"}}});
        for restricted in [true, false] {
            let message = found(template.clone(), restricted);
            let expected = "store.cluster.template: setup.secret would hide the Secret: remove it";
            assert_eq!(message.as_deref(), Some(expected));
        }
    }

    #[test]
    fn null_removes_a_field_and_a_list_is_replaced() {
        let spec = json!({"a": 1, "b": {"c": [1, 2], "d": 3}});
        let template = json!({"a": null, "b": {"c": [4]}});
        let merged = merged(spec, template.as_object().unwrap().clone());
        assert_eq!(Value::Object(merged), json!({"b": {"c": [4], "d": 3}}));
    }
}
