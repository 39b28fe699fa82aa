//! Facts about the volume of a store.

use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::api::resource::Quantity,
};

use crate::model::metadata::POSTGRES_MAJOR;

/// A PersistentVolumeClaim that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimFact {
    /// Major version of the server that initialised the data, from the claim's annotation.
    pub major: Option<u32>,
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
        let major = annotations.and_then(|annotations| annotations.get(POSTGRES_MAJOR));
        let spec = claim.spec.clone().unwrap_or_default();
        let requests = spec.resources.and_then(|resources| resources.requests);
        let status = claim.status.as_ref();
        let capacity = status.and_then(|status| status.capacity.as_ref());
        Self {
            major: major.and_then(|major| major.parse().ok()),
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
