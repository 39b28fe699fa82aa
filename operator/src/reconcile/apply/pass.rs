//! One pass over the children of a stack.

use std::collections::{BTreeSet, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use shortener_operator_core::model::{
    drift,
    kinds::Deletion,
    live::Live,
    metadata::{APPLIED_HASH, Component, FIELD_MANAGER, StackIdentity, component_of},
    ownership::{Ownership, ownership},
};
use tokio::time::Instant;

use super::{
    error::{ApplyError, Cause, Failure, by_component},
    live::observe,
    withheld::Withheld,
};
use crate::{
    kubernetes::{
        inventory::Child,
        ledger::{ChildKey, Record},
        refusal::is_absent,
    },
    reconcile::context::Scope,
};

/// The treatment of a child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is created if it is absent, and only its owner's uid makes it the stack's.
    Child,
    /// It holds data. It is created if it is absent, and it may have outlived an earlier stack.
    Data,
    /// It holds credentials, and may have outlived an earlier stack. It stays absent: the desired object is only a part
    /// of it. Its deletion triggers the next reconcile.
    Credentials,
}

impl Treatment {
    fn deletion(self) -> Deletion {
        match self {
            Self::Child => Deletion::Pruned,
            Self::Data | Self::Credentials => Deletion::Retained,
        }
    }
}

/// The live state after a pass, which names the children that could not be written by component, and the error that names
/// every one of them. The others are in place. Failed monitoring objects are no error:
/// [`monitoring_refused`](Live::monitoring_refused) reports them.
pub type Applied = (Live, Result<(), ApplyError>);

/// One pass over the children of a stack.
pub(super) struct Pass<'a> {
    pub(super) scope: &'a Scope,
    pub(super) identity: &'a StackIdentity,
    pub(super) wanted: HashSet<(String, String)>,
    /// Components of which no object is deleted.
    pub(super) held: BTreeSet<Component>,
    /// The Secrets and volumes that others have to do without in this pass.
    pub(super) withheld: Withheld,
    /// Time at which the step should have ended.
    pub(super) deadline: Instant,
    /// True when the cluster lacks the kind of an object.
    lacks_a_kind: bool,
    failures: Vec<Failure>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(scope: &'a Scope, identity: &'a StackIdentity, deadline: Instant) -> Self {
        Self {
            scope,
            identity,
            wanted: HashSet::new(),
            held: BTreeSet::new(),
            withheld: Withheld::default(),
            deadline,
            lacks_a_kind: false,
            failures: Vec::new(),
        }
    }

    /// Writes each object that differs.
    pub(super) async fn apply<K: Child>(&mut self, desired: Vec<K>) {
        self.write(desired, Treatment::Child).await;
    }

    /// Writes each object that differs, and keeps the failures. Returns true if there are none.
    pub(super) async fn write<K: Child>(&mut self, desired: Vec<K>, treatment: Treatment) -> bool {
        let failures = self.attempt(desired, treatment).await;
        let written = failures.is_empty();
        for (metadata, cause) in failures {
            self.fail::<K>(&metadata, cause);
        }
        written
    }

    /// Writes each object that differs. The kind may have been removed from the cluster since discovery.
    pub(super) async fn apply_where_served<K: Child>(&mut self, desired: Vec<K>) {
        for (metadata, cause) in self.attempt(desired, Treatment::Child).await {
            match cause {
                Cause::Api(kube::Error::Api(status)) if is_absent(&status) => {
                    let name = metadata.name.unwrap_or_default();
                    tracing::warn!(child = %child::<K>(&name), stack = %self.identity.name, "the cluster no longer has this kind, so the object was not written");
                    self.lacks_a_kind = true;
                }
                cause => self.fail::<K>(&metadata, cause),
            }
        }
    }

    /// Returns the live state with the failures of this pass, and an error that names them. The failures of `watchers`, a
    /// pass over objects that the stack does not depend on, are only reported.
    pub(super) fn finish(self, watchers: Self) -> Applied {
        for Failure { child, cause, .. } in &watchers.failures {
            tracing::warn!(%child, %cause, stack = %self.identity.name, namespace = %self.identity.namespace, "failed to apply monitoring objects");
        }
        let refused =
            (!watchers.failures.is_empty()).then(|| ApplyError(watchers.failures).to_string());
        let live = Live {
            monitoring_refused: refused,
            gateway_kinds_gone: self.lacks_a_kind,
            refused: by_component(&self.failures),
            ..observe(self.scope, self.identity)
        };
        let written = if self.failures.is_empty() {
            Ok(())
        } else {
            Err(ApplyError(self.failures))
        };
        (live, written)
    }

    /// Returns true when the stack is gone, so that nothing may be created for it: the garbage collector has taken its
    /// children already, and what outlives a stack would have none.
    pub(super) fn is_late(&self) -> bool {
        self.scope.context.is_deleted(self.identity)
    }

    pub(super) async fn apply_one<K: Child>(
        &self,
        object: K,
        name: &str,
        treatment: Treatment,
    ) -> Result<(), Cause> {
        let mut rendered = serde_json::to_value(&object)?;
        let hash = hash(&rendered);
        let live = self.live_metadata::<K>(name).await?;
        if let Some(live) = &live {
            match ownership(live, self.identity, treatment.deletion()) {
                Ownership::Foreign => return Err(Cause::NameTaken),
                Ownership::Previous => return Err(Cause::Previous),
                Ownership::Ours => {}
            }
            // An object that is being deleted accepts no changes. Its deletion triggers the next reconcile.
            if live.deletion_timestamp.is_some()
                || self.is_current::<K>(name, live, &hash, &rendered).await?
            {
                return Ok(());
            }
        } else if treatment == Treatment::Credentials || self.is_late() {
            return Ok(());
        }
        let metadata = &mut rendered["metadata"];
        metadata["annotations"][APPLIED_HASH] = Value::from(hash.clone());
        let (uid, before) = live
            .map(|live| (live.uid, live.resource_version))
            .unwrap_or_default();
        if let Some(uid) = uid {
            // The uid restricts the write to this very object.
            metadata["uid"] = Value::from(uid);
        }
        rendered["apiVersion"] = Value::from(K::api_version(&()));
        rendered["kind"] = Value::from(K::kind(&()));
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = self
            .api::<K>()
            .patch(name, &params, &Patch::Apply(rendered))
            .await?;
        tracing::info!(child = %child::<K>(name), stack = %self.identity.name, namespace = %self.identity.namespace, "applied");
        self.scope.context.ledger.put(
            self.key::<K>(name),
            Record::of(written.meta(), &hash, before.as_deref()),
        );
        Ok(())
    }

    /// Returns the metadata from the watch or, if the watch has no such object, from the API server. Objects without
    /// the operator's labels are not watched.
    pub(super) async fn live_metadata<K: Child>(
        &self,
        name: &str,
    ) -> Result<Option<ObjectMeta>, Cause> {
        if let Some(metadata) = self
            .scope
            .inventory
            .metadata::<K>(&self.identity.namespace, name)
        {
            return Ok(Some(metadata));
        }
        let api: Api<PartialObjectMeta<K>> =
            Api::namespaced(self.scope.context.client.clone(), &self.identity.namespace);
        Ok(api.get_opt(name).await?.map(|object| object.metadata))
    }

    /// Returns true when the live object already matches the rendered one.
    async fn is_current<K: Child>(
        &self,
        name: &str,
        live: &ObjectMeta,
        hash: &str,
        rendered: &Value,
    ) -> Result<bool, Cause> {
        let key = self.key::<K>(name);
        if let Some(record) = self.scope.context.ledger.get(key) {
            return Ok(record.holds_for(live, hash));
        }
        let applied = live
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(APPLIED_HASH));
        if applied.map(String::as_str) != Some(hash) {
            return Ok(false);
        }
        // No record exists since the process started. The annotation identifies what was applied; the object shows if
        // it still holds.
        let Some(object) = self.api::<K>().get_opt(name).await? else {
            return Ok(false);
        };
        let current = drift::covers(&serde_json::to_value(&object)?, rendered);
        if current {
            self.scope
                .context
                .ledger
                .put(key, Record::of(object.meta(), hash, None));
        }
        Ok(current)
    }

    /// Keeps the failure to write or delete a child.
    pub(super) fn fail<K: Child>(&mut self, metadata: &ObjectMeta, cause: Cause) {
        let name = metadata.name.as_deref().unwrap_or_default();
        self.failures.push(Failure {
            component: component_of(metadata),
            child: child::<K>(name),
            cause,
        });
    }

    pub(super) fn api<K: Child>(&self) -> Api<K> {
        Api::namespaced(self.scope.context.client.clone(), &self.identity.namespace)
    }

    fn key<K: Child>(&self, name: &str) -> ChildKey {
        ChildKey::new(&K::kind(&()), &self.identity.namespace, name)
    }
}

pub(super) fn kind<K: Child>() -> String {
    K::kind(&()).into_owned()
}

pub(super) fn child<K: Child>(name: &str) -> String {
    format!("{}/{name}", K::kind(&()))
}

/// Returns the hash of a rendered object. JSON objects are sorted by key, so equal objects have equal hashes.
fn hash(rendered: &Value) -> String {
    let digest = Sha256::digest(rendered.to_string());
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
