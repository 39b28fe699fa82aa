//! Secrets, volumes, and the workloads that use them, as steps of a pass.
//!
//! Wherever a pass ends, data never outlives its password, and nothing is rendered from credentials that are not stored.
//! A volume therefore comes after its Secret. When both are to outlive the stack, the Secret loses its owner before the
//! volume does; when both are to go with the stack, the volume gets its owner before the Secret does.

use std::collections::HashSet;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{ResourceExt, api::PostParams};
use shortener_operator_core::model::{
    desired::DesiredSecret,
    kinds::Deletion,
    metadata::FIELD_MANAGER,
    ownership::{Ownership, ownership},
    pod_uses::HasPods,
};

use super::{
    error::Cause,
    pass::{Pass, Treatment, child, kind},
};
use crate::kubernetes::{inventory::Child, refusal};

impl Pass<'_> {
    /// Creates each newly generated Secret, then writes the metadata of every Secret, or leaves that to
    /// [`Self::apply_claims`] if the Secret is to have an owner. The user may change the data after its creation.
    pub(super) async fn apply_secrets(&mut self, desired: Vec<DesiredSecret>) {
        for DesiredSecret { secret, create } in desired {
            if self.is_late() {
                return;
            }
            let name = secret.name_any();
            let stored = match create {
                Some(generated) => self.limited(self.create_secret(generated)).await,
                None => self.limited(self.check_secret(&name)).await,
            };
            if let Err(cause) = stored {
                self.fail::<Secret>(&secret.metadata, cause);
                self.withheld.unstored.insert(name);
            } else if secret.metadata.owner_references.is_some() {
                self.withheld.owned.push(secret);
            } else if !self.write(vec![secret], Treatment::Credentials).await {
                self.withheld.unwritten.insert(name);
            }
        }
    }

    /// Writes each volume claim that differs, then the Secrets that get an owner. A volume without its password looks
    /// like a database whose credentials are lost, so a volume stays as it is while its Secret does.
    pub(super) async fn apply_claims(&mut self, desired: Vec<PersistentVolumeClaim>) {
        // The garbage collector may have the Secrets already, so no volume may lose its owner any more.
        if self.is_late() {
            return;
        }
        let (mut claims, mut failed) = (desired, HashSet::new());
        claims.retain(|claim| !self.withheld.keeps_back(&claim.name_any()));
        for (metadata, cause) in self.attempt(claims, Treatment::Data).await {
            let name = metadata.name.clone().unwrap_or_default();
            if matches!(cause, Cause::NameTaken | Cause::Previous) {
                self.withheld.foreign.insert(name.clone());
            }
            failed.insert(name);
            let cause = match cause {
                Cause::Api(error) if refusal::is_growth(&error) => Cause::NotExpandable {
                    class: self.storage_class(&metadata),
                },
                cause => cause,
            };
            self.fail::<PersistentVolumeClaim>(&metadata, cause);
        }
        let mut owned = std::mem::take(&mut self.withheld.owned);
        owned.retain(|secret| !failed.contains(&secret.name_any()));
        self.write(owned, Treatment::Credentials).await;
    }

    /// Returns the name of the storage class of a live volume claim.
    fn storage_class(&self, claim: &ObjectMeta) -> String {
        let name = claim.name.as_deref().unwrap_or_default();
        let inventory = &self.scope.inventory;
        let live = inventory.kept::<PersistentVolumeClaim>(&self.identity.namespace, name);
        let class = live.and_then(|live| live.spec.as_ref()?.storage_class_name.clone());
        class.unwrap_or_else(|| "(none)".to_owned())
    }

    /// Writes each workload that differs, except those whose pods would use a Secret that is not stored or a volume of
    /// another owner: they stay as they are.
    pub(super) async fn apply_workloads<K: Child + HasPods>(&mut self, desired: Vec<K>) {
        let (admitted, kept): (Vec<K>, Vec<K>) = desired.into_iter().partition(|workload| {
            let pods = workload.pod_spec();
            pods.is_none_or(|pods| self.withheld.admits(pods, &self.identity.name))
        });
        for workload in kept {
            let name = workload.name_any();
            tracing::warn!(child = %child::<K>(&name), stack = %self.identity.name, namespace = %self.identity.namespace, "not changed, because a Secret or a volume that it uses is not available");
            self.wanted.insert((kind::<K>(), name));
        }
        self.write(admitted, Treatment::Child).await;
    }

    async fn create_secret(&self, mut generated: Secret) -> Result<(), Cause> {
        // Creation registers a second field manager entry, which keeps its fields when apply omits them. The owner
        // reference must not be among them, because it is removed when the deletion policy changes.
        generated.metadata.owner_references = None;
        // Creating conflicts where applying would silently rotate a credential.
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.api::<Secret>().create(&params, &generated).await?;
        Ok(())
    }

    /// Checks that a Secret exists and stays.
    async fn check_secret(&self, name: &str) -> Result<(), Cause> {
        let Some(live) = self.live::<Secret>(name).await? else {
            return Err(Cause::Vanished);
        };
        match ownership(&live.metadata, self.identity, Deletion::Retained) {
            Ownership::Foreign => Err(Cause::NameTaken),
            Ownership::Previous => Err(Cause::Previous),
            Ownership::Ours if live.metadata.deletion_timestamp.is_some() => Err(Cause::Vanished),
            Ownership::Ours => Ok(()),
        }
    }
}
