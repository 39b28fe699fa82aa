//! Writing of volume claims. A volume that its storage class does not let grow is told from a missing right.

use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    error::Cause,
    pass::{Absent, Pass},
};
use crate::kubernetes::refusal;

impl Pass<'_> {
    /// Writes each volume claim that differs, unless a generated Secret is missing: a volume without its password looks
    /// like a database whose credentials are lost.
    pub(super) async fn apply_claims(&mut self, desired: Vec<PersistentVolumeClaim>) {
        if !self.secrets_exist {
            return;
        }
        for (metadata, cause) in self.attempt(desired, Absent::Create).await {
            let cause = match cause {
                Cause::Api(error) if refusal::is_growth(&error) => Cause::NotExpandable {
                    class: self.storage_class(&metadata),
                },
                cause => cause,
            };
            self.fail::<PersistentVolumeClaim>(&metadata, cause);
        }
    }

    /// Returns the name of the storage class of a live volume claim.
    fn storage_class(&self, claim: &ObjectMeta) -> String {
        let name = claim.name.as_deref().unwrap_or_default();
        let inventory = &self.scope.inventory;
        let live = inventory.kept::<PersistentVolumeClaim>(&self.identity.namespace, name);
        let class = live.and_then(|live| live.spec.as_ref()?.storage_class_name.clone());
        class.unwrap_or_else(|| "(none)".to_owned())
    }
}
