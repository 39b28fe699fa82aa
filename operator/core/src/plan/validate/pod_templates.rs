//! Validation of the users' changes of pod templates, against the pods that the operator itself would run.

mod own;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

use super::held::HeldComponents;
use crate::{
    api::ShortenerStackSpec,
    model::{
        metadata::Component,
        pod_patch::{PatchError, PodPatch},
        stack::ValidatedStack,
    },
    plan::{build, error::ValidateError, pod_settings},
};

/// Adds the changes of pod templates to a stack that has none yet. A component whose changes do not pass keeps its pods.
pub(super) fn add(
    spec: &ShortenerStackSpec,
    stack: &mut ValidatedStack,
    held: &mut HeldComponents,
) {
    let given = |component| {
        let (field, settings) = pod_settings::of(spec, component)?;
        Some((component, field, settings.pod_template.as_ref()?))
    };
    let given: Vec<_> = Component::WITH_PODS.into_iter().filter_map(given).collect();
    if given.is_empty() {
        return;
    }
    let templates = build::pod_templates(stack);
    for (component, field, changes) in given {
        let Some(own) = templates.get(&component) else {
            continue;
        };
        let checked = checked(changes, own).map_err(|PatchError { path, problem }| {
            ValidateError::PodTemplate {
                field,
                path,
                problem,
            }
        });
        let accepted = held.pods(component, checked);
        stack
            .pod_templates
            .extend(accepted.map(|changes| (component, changes)));
    }
}

/// Returns changes that leave the operator's part of the pods intact.
fn checked(changes: &Map<String, Value>, own: &PodTemplateSpec) -> Result<PodPatch, PatchError> {
    let changes = PodPatch::read(changes)?;
    let unusable =
        |error: serde_json::Error| PatchError::new("a value", format!("fits no field: {error}"));
    let merged = changes.onto(own).map_err(unusable)?;
    let [before, after] = [own, &merged].map(serde_json::to_value);
    own::check(&before.map_err(unusable)?, &after.map_err(unusable)?)?;
    Ok(changes)
}

#[cfg(test)]
mod tests;
