//! The Secrets and volumes that others have to do without in a pass.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{PodSpec, Secret};
use shortener_operator_core::model::{credentials::checksum_name, pod_uses};

/// The Secrets and volumes that others have to do without in a pass, by name. A volume has the name of its Secret.
#[derive(Default)]
pub(super) struct Withheld {
    /// Secrets that are not stored. No pod and no volume may rely on them.
    pub(super) unstored: HashSet<String>,
    /// Secrets that are stored, but not as desired. Their volumes stay as they are.
    pub(super) unwritten: HashSet<String>,
    /// Volume claims of another owner, which no pod may use.
    pub(super) foreign: HashSet<String>,
    /// Secrets that are to have an owner, which they get after their volumes.
    pub(super) owned: Vec<Secret>,
}

impl Withheld {
    /// Returns true when a volume has to stay as it is, because its Secret does.
    pub(super) fn keeps_back(&self, claim: &str) -> bool {
        self.unstored.contains(claim) || self.unwritten.contains(claim)
    }

    /// Returns true when everything that the pods of a stack's workload are rendered from is in place.
    pub(super) fn admits(&self, pods: &PodSpec, stack: &str) -> bool {
        // The checksums of all pods depend on its key.
        !self.unstored.contains(&checksum_name(stack))
            && !pod_uses::secrets(pods).any(|secret| self.unstored.contains(secret))
            && !pod_uses::claims(pods).any(|claim| self.foreign.contains(claim))
    }
}
