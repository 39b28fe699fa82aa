//! The Secrets and the volume claims that pods use.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    batch::v1::CronJob,
    core::v1::{EnvVar, KeyToPath, PodSpec, PodTemplateSpec, Volume},
};

use super::metadata::is_subdomain;

/// A kind of object that runs pods.
pub trait HasPods {
    /// Returns the template of its pods.
    fn template(&self) -> Option<&PodTemplateSpec>;

    /// Returns the spec of its pods.
    fn pod_spec(&self) -> Option<&PodSpec> {
        self.template()?.spec.as_ref()
    }
}

impl HasPods for Deployment {
    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.as_ref()?.template)
    }
}

impl HasPods for StatefulSet {
    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.as_ref()?.template)
    }
}

impl HasPods for CronJob {
    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.as_ref()?.job_template.spec.as_ref()?.template)
    }
}

/// A content of a Secret that a pod reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretUse {
    /// Name of the Secret.
    pub secret: String,
    /// The key that is read; `None` for every key.
    pub key: Option<String>,
    /// True when the pod starts without it.
    pub optional: bool,
}

impl SecretUse {
    fn of(secret: &str, key: Option<&str>, optional: Option<bool>) -> Self {
        Self {
            secret: secret.to_owned(),
            key: key.map(str::to_owned),
            optional: optional == Some(true),
        }
    }
}

/// Returns the contents of Secrets that a pod reads: by a variable, by the variables of a whole Secret, and by volumes. A
/// name that no Secret can have is left out, because the reader of the Secrets puts names into the path of a request.
pub fn contents(pod: &PodSpec) -> BTreeSet<SecretUse> {
    let containers = || pod.init_containers.iter().flatten().chain(&pod.containers);
    let variables = containers().flat_map(|container| container.env.iter().flatten());
    let of_variables = variables.filter_map(|variable| {
        let source = variable.value_from.as_ref()?.secret_key_ref.as_ref()?;
        Some(SecretUse::of(
            &source.name,
            Some(&source.key),
            source.optional,
        ))
    });
    let groups = containers().flat_map(|container| container.env_from.iter().flatten());
    let of_groups = groups.filter_map(|group| {
        let source = group.secret_ref.as_ref()?;
        Some(SecretUse::of(&source.name, None, source.optional))
    });
    let of_volumes = pod.volumes.iter().flatten().flat_map(of_volume);
    let all = of_variables.chain(of_groups).chain(of_volumes);
    all.filter(|used| is_subdomain(&used.secret)).collect()
}

/// Returns the contents of Secrets in a volume, be they its whole or a part of it.
fn of_volume(volume: &Volume) -> Vec<SecretUse> {
    let whole = volume.secret.iter().filter_map(|source| {
        let name = source.secret_name.as_deref()?;
        Some(of_items(name, source.items.as_deref(), source.optional))
    });
    let projected = volume.projected.iter();
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    let parts = sources.filter_map(|source| {
        let part = source.secret.as_ref()?;
        Some(of_items(&part.name, part.items.as_deref(), part.optional))
    });
    whole.chain(parts).flatten().collect()
}

/// Returns the contents of a Secret in a volume: those keys that it names, or every key.
fn of_items(name: &str, items: Option<&[KeyToPath]>, optional: Option<bool>) -> Vec<SecretUse> {
    match items {
        Some(items) if !items.is_empty() => items
            .iter()
            .map(|item| SecretUse::of(name, Some(&item.key), optional))
            .collect(),
        _ => vec![SecretUse::of(name, None, optional)],
    }
}

/// Returns the names of the Secrets with which the images of a pod are pulled.
pub fn pull_secrets(pod: &PodSpec) -> impl Iterator<Item = &str> {
    let secrets = pod.image_pull_secrets.iter().flatten();
    secrets.map(|secret| secret.name.as_str())
}

/// Returns the names of the Secrets that the variables and the volumes of a pod refer to. Projected volumes hold Secrets
/// of the user only.
pub fn secrets(pod: &PodSpec) -> impl Iterator<Item = &str> {
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    let of_variables = variables.filter_map(|variable| {
        let source = variable.value_from.as_ref()?;
        Some(source.secret_key_ref.as_ref()?.name.as_str())
    });
    let volumes = pod.volumes.iter().flatten();
    let of_volumes = volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
    of_variables.chain(of_volumes)
}

/// Returns the variables of the containers of a pod template that run on.
pub fn variables(template: &PodTemplateSpec) -> impl Iterator<Item = &EnvVar> {
    let containers = template.spec.iter().flat_map(|pod| &pod.containers);
    containers.flat_map(|container| container.env.iter().flatten())
}

/// Returns the names of the volume claims that a pod refers to.
pub fn claims(pod: &PodSpec) -> impl Iterator<Item = &str> {
    let volumes = pod.volumes.iter().flatten();
    volumes.filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref()?;
        Some(claim.claim_name.as_str())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(pod: Value) -> Vec<(String, Option<String>, bool)> {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let found = contents(&pod).into_iter();
        found
            .map(|found| (found.secret, found.key, found.optional))
            .collect()
    }

    fn used(secret: &str, key: Option<&str>, optional: bool) -> (String, Option<String>, bool) {
        (secret.to_owned(), key.map(str::to_owned), optional)
    }

    #[test]
    fn every_way_to_read_a_secret_is_found_with_its_keys() {
        let by_key = |name: &str, optional: bool| json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "k", "optional": optional}}});
        let pod = json!({
            "initContainers": [{"name": "i", "env": [by_key("a", false)]}],
            "containers": [
                {"name": "c", "env": [by_key("b", true), {"name": "B", "value": "x"}]},
                {"name": "d", "envFrom": [
                    {"secretRef": {"name": "c"}},
                    {"configMapRef": {"name": "map"}},
                ]},
            ],
            "volumes": [
                {"name": "v", "secret": {"secretName": "d", "optional": true}},
                {"name": "w", "secret": {"secretName": "e", "items": [{"key": "k", "path": "p"}]}},
                {"name": "x", "projected": {"sources": [
                    {"secret": {"name": "f"}},
                    {"secret": {"name": "g", "items": [{"key": "k", "path": "p"}, {"key": "l", "path": "q"}]}},
                    {"configMap": {"name": "map"}},
                ]}},
                {"name": "y", "emptyDir": {}},
            ],
        });
        let expected = [
            used("a", Some("k"), false),
            used("b", Some("k"), true),
            used("c", None, false),
            used("d", None, true),
            used("e", Some("k"), false),
            used("f", None, false),
            used("g", Some("k"), false),
            used("g", Some("l"), false),
        ];
        assert_eq!(found(pod), expected);
    }

    #[test]
    fn a_name_that_would_be_another_path_is_none_of_a_secret() {
        for name in ["", "../pods/a", "a?b=c", "a/b"] {
            let volume = json!({"name": "v", "secret": {"secretName": name}});
            let pod = json!({"containers": [], "volumes": [volume]});
            assert_eq!(found(pod), [], "{name}");
        }
    }
}
