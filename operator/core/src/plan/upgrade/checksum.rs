//! The two parts of the checksum in a pod template: those of the Secrets that the pods use, and those of their
//! configuration.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::model::metadata::CONFIG_CHECKSUM;

/// Digits of the digest of a configuration. The checksum of a Secret is shorter.
const DIGEST: usize = 64;

/// The checksum in a pod template, each part as texts separated by dots.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checksum {
    /// Checksums of Secrets.
    pub(super) secrets: String,
    /// Digests of configuration.
    pub(super) config: String,
}

impl Checksum {
    /// Returns the checksum of a pod template.
    pub(super) fn of(template: &PodTemplateSpec) -> Self {
        let metadata = template.metadata.as_ref();
        let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
        let checksum = annotations.and_then(|annotations| annotations.get(CONFIG_CHECKSUM));
        let parts = checksum.map(String::as_str).unwrap_or_default().split('.');
        let (config, secrets): (Vec<_>, Vec<_>) = parts
            .filter(|part| !part.is_empty())
            .partition(|part| part.len() == DIGEST);
        Self {
            secrets: secrets.join("."),
            config: config.join("."),
        }
    }

    /// Returns true when other checksums are of as many Secrets.
    pub(super) fn is_comparable(&self, secrets: &str) -> bool {
        let count = |secrets: &str| secrets.split('.').filter(|part| !part.is_empty()).count();
        count(&self.secrets) == count(secrets)
    }

    /// Writes the checksum to a pod template.
    pub(super) fn write(self, template: &mut PodTemplateSpec) {
        let parts = [self.secrets, self.config].into_iter();
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        let metadata = template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(CONFIG_CHECKSUM.to_owned(), parts.join("."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{build::build, objects::pod},
        testing::stack::every_profile,
    };

    #[test]
    fn the_checksum_of_every_workload_has_the_parts_that_are_put_into_it() {
        assert_eq!(pod::digest("").len(), DIGEST);
        let children = build(&every_profile()).children;
        let deployments = children.deployments.into_iter();
        let deployments = deployments.map(|deployment| deployment.spec.unwrap().template);
        let sets = children.stateful_sets.into_iter();
        let sets = sets.map(|set| set.spec.unwrap().template);
        for template in deployments.chain(sets) {
            let found = Checksum::of(&template);
            assert!(found.secrets.split('.').all(|part| part.len() < DIGEST));
            let mut written = template.clone();
            Checksum::of(&template).write(&mut written);
            assert_eq!(written, template);
        }
    }
}
