//! Validation of the users' changes of pod templates, against the pods that the operator itself would run.

mod own;
mod restricted;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

use super::held::HeldComponents;
use crate::{
    api::ShortenerStackSpec,
    model::{
        defaults::Defaults,
        facts::PodContents,
        failure::StepFailure,
        metadata::Component,
        pod_patch::{PatchError, PodPatch},
        stack::ValidatedStack,
    },
    plan::{build, error::ValidateError, pod_settings},
};

/// Adds the changes of pod templates to a stack that has none yet. A component whose changes do not pass keeps its pods.
pub(super) fn add(
    spec: &ShortenerStackSpec,
    defaults: &Defaults,
    contents: &BTreeMap<Component, Result<PodContents, StepFailure>>,
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
    let none = BTreeSet::new();
    for (component, field, changes) in given {
        let Some(own) = templates.get(&component) else {
            continue;
        };
        let read = contents.get(&component).and_then(|read| read.as_ref().ok());
        let usable = read.map_or(&none, |read| &read.usable);
        let usable = Some(usable).filter(|_| defaults.is_restricted());
        let accepted = held.pods(component, checked(field, changes, own, usable));
        stack
            .pod_templates
            .extend(accepted.map(|changes| (component, changes)));
    }
}

/// Returns changes that leave the operator's part of the pods intact and that the policy admits. `usable` are the Secrets
/// that the pods may read under the policy `Restricted`; `None` stands for the policy `Unrestricted`.
fn checked(
    field: &'static str,
    changes: &Map<String, Value>,
    own: &PodTemplateSpec,
    usable: Option<&BTreeSet<String>>,
) -> Result<PodPatch, ValidateError> {
    let merged = merged(changes, own, usable.is_some());
    let (changes, merged) =
        merged.map_err(|PatchError { path, problem }| ValidateError::PodTemplate {
            field,
            path,
            problem,
        })?;
    let secret = usable.and_then(|usable| restricted::unusable_secret(own, &merged, usable));
    secret.map_or(Ok(changes), |secret| {
        Err(ValidateError::SecretNotUsable {
            field: format!("{field}.podTemplate"),
            secret,
        })
    })
}

/// Returns changes with the template that they make.
fn merged(
    changes: &Map<String, Value>,
    own: &PodTemplateSpec,
    is_restricted: bool,
) -> Result<(PodPatch, PodTemplateSpec), PatchError> {
    let changes = PodPatch::read(changes)?;
    let unusable =
        |error: serde_json::Error| PatchError::new("a value", format!("fits no field: {error}"));
    let merged = changes.onto(own).map_err(unusable)?;
    let [before, after] = [own, &merged].map(serde_json::to_value);
    let (before, after) = (before.map_err(unusable)?, after.map_err(unusable)?);
    own::check(&before, &after)?;
    if is_restricted {
        restricted::check(&before, &after)?;
    }
    Ok((changes, merged))
}

#[cfg(test)]
mod tests;
