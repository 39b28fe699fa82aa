//! Facts about the volume of a store.

use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::api::resource::Quantity,
};

use crate::model::{metadata::DATA_VERSION, version::Version};

/// A PersistentVolumeClaim that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimFact {
    /// Version of the data, from the claim's annotation.
    pub version: Option<Version>,
    /// Size that it requests.
    pub request: Option<Quantity>,
    /// Size of its volume; `None` until it has one.
    pub capacity: Option<Quantity>,
    /// Its storage class.
    pub class: Option<String>,
    pub access_modes: Vec<String>,
}

impl ClaimFact {
    /// Returns the facts about a claim.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let annotations = claim.metadata.annotations.as_ref();
        let version = annotations.and_then(|annotations| annotations.get(DATA_VERSION));
        let spec = claim.spec.clone().unwrap_or_default();
        let requests = spec.resources.and_then(|resources| resources.requests);
        let status = claim.status.as_ref();
        let capacity = status.and_then(|status| status.capacity.as_ref());
        Self {
            version: version.and_then(|version| Version::parse(version)),
            request: requests.and_then(|mut requests| requests.remove("storage")),
            capacity: capacity
                .and_then(|capacity| capacity.get("storage"))
                .cloned(),
            class: spec.storage_class_name,
            access_modes: spec.access_modes.unwrap_or_default(),
        }
    }

    /// Returns the size of its volume, or the one that it requests until it has a volume.
    pub fn size(&self) -> Option<&Quantity> {
        self.capacity.as_ref().or(self.request.as_ref())
    }
}
