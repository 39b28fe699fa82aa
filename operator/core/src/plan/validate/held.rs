//! The components that are held: what they need is missing or invalid, so their objects stay as they are, and everything
//! else is built.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodTemplateSpec};

use crate::{
    model::{failure::StepFailure, metadata::Component},
    plan::{
        error::ValidateError,
        stores::{self, Definition},
    },
};

/// The components that are held, with the reason.
#[derive(Default)]
pub(super) struct Held(BTreeMap<Component, StepFailure>);

impl Held {
    /// Returns a part of the stack, or holds its component.
    pub(super) fn part<T>(
        &mut self,
        component: Component,
        part: Result<T, ValidateError>,
    ) -> Option<T> {
        match part {
            Ok(part) => Some(part),
            Err(error) => {
                self.0.insert(component, StepFailure::from(&error));
                None
            }
        }
    }

    /// Returns the pod templates of those programs that exist and read a part that is held. Without that part, or with
    /// other credentials, they would restart for nothing.
    pub(super) fn kept_templates(
        &self,
        programs: &BTreeMap<Component, Arc<Deployment>>,
    ) -> BTreeMap<Component, PodTemplateSpec> {
        let kept = programs.iter().filter(|(program, _)| self.reads(**program));
        kept.filter_map(|(program, live)| Some((*program, live.spec.as_ref()?.template.clone())))
            .collect()
    }

    fn reads(&self, program: Component) -> bool {
        let is_read = |store: &Definition| {
            store.clients.contains(&program) && self.0.contains_key(&store.component)
        };
        self.0.contains_key(&program) || stores::all().any(is_read)
    }

    /// Returns the reasons by component. The workers are held with their queue, and a backend with its collector.
    pub(super) fn reasons(mut self) -> BTreeMap<Component, StepFailure> {
        for (cause, with_it) in [
            (Component::Rabbitmq, Component::Worker),
            (Component::Otel, Component::Telemetry),
        ] {
            if let Some(reason) = self.0.get(&cause).cloned() {
                self.0.insert(with_it, reason);
            }
        }
        self.0
    }
}
