//! The user's changes of a component's pod template.

mod known;
mod merge;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

/// Changes of a pod template. Every field of them is one that a pod template has.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPatch(Map<String, Value>);

/// A part of changes that cannot be merged into a pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// Path of the part, such as `spec.containers[0].imge`.
    pub path: String,
    /// Its problem with the remedy, which continues a sentence that begins with the path.
    pub problem: String,
}

impl PatchError {
    /// Returns the error of a part.
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            problem: problem.into(),
        }
    }
}

impl PodPatch {
    /// Reads changes.
    ///
    /// # Errors
    /// The first part that a pod template does not have, or that has another type there.
    pub fn read(given: &Map<String, Value>) -> Result<Self, PatchError> {
        known::check(given)?;
        Ok(Self(given.clone()))
    }

    /// Returns the changes of these fields of the pod's spec, without all others.
    pub fn only(&self, fields: &[&str]) -> Self {
        let spec = self.0.get("spec").and_then(Value::as_object);
        let kept = spec.into_iter().flatten();
        let kept = kept.filter(|(name, _)| fields.contains(&name.as_str()));
        let kept: Map<_, _> = kept
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Self(Map::from_iter([("spec".to_owned(), kept.into())]))
    }

    /// Returns a pod template with the changes.
    ///
    /// # Errors
    /// A number is too large for its field.
    pub fn onto(&self, template: &PodTemplateSpec) -> serde_json::Result<PodTemplateSpec> {
        let mut merged = serde_json::to_value(template)?;
        if let Value::Object(fields) = &mut merged {
            merge::merge(fields, &self.0);
        }
        serde_json::from_value(merged)
    }
}

#[cfg(test)]
mod tests;
