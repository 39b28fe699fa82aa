//! The release that runs, and the wishes of the user that it sees.

use kube_core::ResourceExt;
use serde_json::Value;

use super::checksum::Checksum;
use crate::{
    api::{ShortenerStack, ShortenerStackSpec, WorkersSpec},
    model::{
        defaults::Defaults,
        metadata::RELEASE,
        record::{Look, RenderedPods},
        stack::ValidatedStack,
    },
    plan::objects::pod,
};

/// Digits that tell the default images of two operators apart.
const SHORT: usize = 12;

/// The release that runs and the state of the stack's resource.
#[derive(Clone, Debug, Default)]
pub(in crate::plan) struct Moment {
    /// Version of the operator and digest of its default images: what another operator would render in another way.
    pub(super) release: String,
    /// `metadata.generation`.
    pub(super) generation: Option<i64>,
    /// Digest of the spec.
    pub(super) spec: String,
    /// Value of the annotation with which the user lets the pods restart.
    pub(super) asked: Option<String>,
    /// Address of the app, if the gateway has to know it.
    pub(super) address: Option<String>,
}

impl Moment {
    /// Returns the moment of a reconcile.
    pub(in crate::plan) fn of(
        stack: &ShortenerStack,
        validated: &ValidatedStack,
        defaults: &Defaults,
    ) -> Self {
        let images = pod::digest(&format!("{:?}", defaults.images));
        let images: String = images.chars().take(SHORT).collect();
        Self {
            release: format!("{}-{images}", env!("CARGO_PKG_VERSION")),
            generation: stack.metadata.generation,
            spec: pod::digest(&essence(&stack.spec).to_string()),
            asked: stack.annotations().get(RELEASE).cloned(),
            address: validated.gateway.routing.upstream().map(str::to_owned),
        }
    }

    /// Returns what is seen of a workload with these pods.
    pub(super) fn look(&self, pods: &RenderedPods) -> Look {
        let Checksum { secrets, config } = Checksum::of(&pods.template);
        let mut files = pods.config.values();
        let address = self.address.as_ref();
        let address = address.filter(|address| files.any(|file| file.contains(address.as_str())));
        let mut pods = pods.clone();
        let without_secrets = Checksum {
            secrets: String::new(),
            config,
        };
        without_secrets.write(&mut pods.template);
        let rendered = serde_json::to_string(&pods).unwrap_or_default();
        Look {
            release: self.release.clone(),
            generation: self.generation,
            spec: self.spec.clone(),
            asked: self.asked.clone(),
            rendered: pod::digest(&rendered),
            secrets,
            address: address.cloned(),
        }
    }
}

/// Returns a spec without the number of workers, which autoscalers change, and without the fields that have their default:
/// a later release writes its new fields as well.
fn essence(spec: &ShortenerStackSpec) -> Value {
    let defaults = ShortenerStackSpec::default();
    let unscaled = ShortenerStackSpec {
        workers: WorkersSpec {
            replicas: defaults.workers.replicas,
            ..spec.workers.clone()
        },
        ..spec.clone()
    };
    let mut essence = serde_json::to_value(unscaled).unwrap_or_default();
    let defaults = serde_json::to_value(defaults).unwrap_or_default();
    remove_defaults(&mut essence, &defaults);
    essence
}

fn remove_defaults(value: &mut Value, defaults: &Value) {
    let (Value::Object(fields), Value::Object(defaults)) = (value, defaults) else {
        return;
    };
    fields.retain(|name, field| match defaults.get(name) {
        Some(default) if *field == *default => false,
        Some(default) => {
            remove_defaults(field, default);
            true
        }
        None => true,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{
        shared::stored_stack,
        stack::{self, minimal_stack},
    };

    fn of(spec: Value) -> Value {
        essence(&stored_stack(spec).spec)
    }

    #[test]
    fn the_number_of_workers_and_what_a_later_release_adds_are_no_edit() {
        assert_eq!(of(json!({})), json!({}));
        for replicas in [0, 1, 7] {
            let scaled = json!({"profiles": ["queue"], "workers": {"replicas": replicas}});
            assert_eq!(of(scaled), json!({"profiles": ["queue"]}));
        }
        // Spelling out a default is none either.
        let spelt = json!({"app": {"replicas": 2}, "rateLimits": {"shortenBurst": 20}});
        assert_eq!(of(spelt), json!({}));
    }

    #[test]
    fn every_other_edit_counts() {
        let edits = [
            json!({"workers": {"replicas": 1, "purge": {"retentionDays": 7}}}),
            json!({"app": {"replicas": 3}}),
            json!({"rateLimits": {"shortenBurst": 21}}),
            json!({"gateway": {"hosts": ["go.test"]}}),
            json!({"database": {"managed": {"storage": "2Gi"}}}),
            json!({"paused": true}),
        ];
        let mut seen = vec![json!({})];
        for edit in edits {
            let essence = of(edit);
            assert!(!seen.contains(&essence), "{essence}");
            seen.push(essence);
        }
    }

    #[test]
    fn another_default_image_is_another_release() {
        let (stack, validated) = (stored_stack(json!({})), minimal_stack());
        let mut defaults = stack::defaults();
        let release = |defaults: &Defaults| Moment::of(&stack, &validated, defaults).release;
        let before = release(&defaults);
        assert!(before.starts_with(env!("CARGO_PKG_VERSION")), "{before}");
        assert_eq!(release(&defaults), before);
        defaults.images.cache = "registry.test/valkey:9".to_owned();
        assert_ne!(release(&defaults), before);
    }
}
