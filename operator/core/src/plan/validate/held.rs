//! The components that are held: what they need is missing or invalid, so their objects stay as they are, and everything
//! else is built.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodTemplateSpec};

use crate::{
    model::{failure::StepFailure, metadata::Component, stack::ValidatedStack},
    plan::{
        error::ValidateError,
        stores::{self, Definition},
    },
};

/// The components that are held, with the reason.
#[derive(Default)]
pub(super) struct HeldComponents {
    parts: BTreeMap<Component, StepFailure>,
    /// The components of which only the pods are held.
    pods: BTreeMap<Component, StepFailure>,
}

impl HeldComponents {
    /// Returns a part of the stack, or holds its component.
    pub(super) fn part<T>(
        &mut self,
        component: Component,
        part: Result<T, ValidateError>,
    ) -> Option<T> {
        match part {
            Ok(part) => Some(part),
            Err(error) => {
                self.parts.insert(component, StepFailure::from(&error));
                None
            }
        }
    }

    /// Returns a part of a component's pods, or holds its pods. The first reason counts.
    pub(super) fn pods<T>(
        &mut self,
        component: Component,
        part: Result<T, ValidateError>,
    ) -> Option<T> {
        match part {
            Ok(part) => Some(part),
            Err(error) => {
                let reason = || StepFailure::from(&error);
                self.pods.entry(component).or_insert_with(reason);
                None
            }
        }
    }

    /// Notes in a stack what of it is held. `programs` are its own programs that exist.
    pub(super) fn note(
        self,
        stack: &mut ValidatedStack,
        programs: &BTreeMap<Component, Arc<Deployment>>,
    ) {
        stack.kept_templates = self.kept_templates(programs);
        let whole = reasons(self.parts);
        let mut held = self.pods;
        held.retain(|component, _| !whole.contains_key(component));
        stack.refused_templates = held.keys().copied().collect();
        held.extend(whole);
        stack.held = held;
    }

    /// Returns the pod templates of those programs that exist and read a part that is held, or whose own pods are held.
    /// Without that part, with other credentials or without the user's changes, they would restart for nothing.
    fn kept_templates(
        &self,
        programs: &BTreeMap<Component, Arc<Deployment>>,
    ) -> BTreeMap<Component, PodTemplateSpec> {
        let kept = programs.iter().filter(|(program, _)| self.reads(**program));
        kept.filter_map(|(program, live)| Some((*program, live.spec.as_ref()?.template.clone())))
            .collect()
    }

    fn reads(&self, program: Component) -> bool {
        let is_read = |store: &Definition| {
            store.clients.contains(&program) && self.parts.contains_key(&store.component)
        };
        self.parts.contains_key(&program)
            || self.pods.contains_key(&program)
            || stores::all().any(is_read)
    }
}

/// Returns the reasons by component. The workers are held with their queue, and a backend with its collector.
fn reasons(mut parts: BTreeMap<Component, StepFailure>) -> BTreeMap<Component, StepFailure> {
    for (cause, with_it) in [
        (Component::Rabbitmq, Component::Worker),
        (Component::Otel, Component::Telemetry),
    ] {
        if let Some(reason) = parts.get(&cause).cloned() {
            parts.insert(with_it, reason);
        }
    }
    parts
}
