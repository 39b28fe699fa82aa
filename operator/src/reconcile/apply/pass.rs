//! One pass over the children of a stack.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, api::Patch};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use shortener_operator_core::model::{
    checksum::hexadecimal,
    drift::{FieldChange, differences},
    kinds::Deletion,
    live::Live,
    metadata::{APPLIED_HASH, Component, StackIdentity, component_of},
    ownership::{Ownership, ownership},
};
use tokio::time::Instant;

use super::{
    error::{ApplyError, Cause, Failure, by_component},
    live::observe,
    withheld::Withheld,
    writes::{LastWrite, Remedy},
};
use crate::{
    kubernetes::{inventory::Child, patches::applying, refusal::is_absent},
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
        let is_patient = self.scope.context.is_patient(self.identity);
        let (brief, lasting): (Vec<&Failure>, Vec<&Failure>) = self
            .failures
            .iter()
            .partition(|failure| is_patient && failure.cause.is_brief());
        let mut retried = by_component(brief);
        let refused_children = by_component(lasting);
        retried.retain(|component, _| !refused_children.contains_key(component));
        let live = Live {
            monitoring_refused: refused,
            gateway_kinds_gone: self.lacks_a_kind,
            refused: refused_children,
            retried,
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
        let (rendered, hash) = render(&object)?;
        let live = self.live::<K>(name).await?;
        if let Some(live) = &live {
            match ownership(live.meta(), self.identity, treatment.deletion()) {
                Ownership::Foreign => return Err(Cause::NameTaken),
                Ownership::Previous => return Err(Cause::Previous),
                Ownership::Ours => {}
            }
            // An object that is being deleted accepts no changes. Its deletion triggers the next reconcile.
            if live.meta().deletion_timestamp.is_some() {
                return Ok(());
            }
            let found = self.differences::<K>(name, live, &rendered).await?;
            let writes = &self.scope.context.writes;
            match writes.remedy::<K>(live.meta(), &hash, &found) {
                _ if found.is_empty() => return Ok(()),
                Remedy::Rest => return Ok(()),
                Remedy::Pause => return Err(Cause::Contested(paths(&found))),
                Remedy::Write => {}
            }
        } else if treatment == Treatment::Credentials || self.is_late() {
            return Ok(());
        }
        let live = live.as_deref().map(Resource::meta);
        self.write_one::<K>(name, live, rendered, &hash).await
    }

    /// Writes an object. `live` is that which the watch shows.
    async fn write_one<K: Child>(
        &self,
        name: &str,
        live: Option<&ObjectMeta>,
        rendered: Value,
        hash: &str,
    ) -> Result<(), Cause> {
        let mut sent = rendered.clone();
        if let Some(uid) = live.and_then(|live| live.uid.clone()) {
            // The uid restricts the write to this very object.
            sent["metadata"]["uid"] = Value::from(uid);
        }
        sent["apiVersion"] = Value::from(K::api_version(&()));
        sent["kind"] = Value::from(K::kind(&()));
        let patch = Patch::Apply(sent);
        let written = self.api::<K>().patch(name, &applying(), &patch).await?;
        let (stack, namespace) = (&self.identity.name, &self.identity.namespace);
        tracing::info!(child = %child::<K>(name), %stack, %namespace, "applied");
        let left = differences(&serde_json::to_value(&written)?, &rendered);
        if !left.is_empty() {
            tracing::warn!(child = %child::<K>(name), %stack, %namespace, fields = %paths(&left).join(", "), "the API server stored other values than the operator sent, for example because of a webhook; the operator keeps them");
        }
        let before = live.and_then(|live| live.resource_version.clone());
        let write = LastWrite::of(written.meta(), hash, before, left);
        self.scope.context.writes.put::<K>(written.meta(), write);
        Ok(())
    }

    /// Returns what is kept of an object, from the watch or, if that has no such object, from the API server. Objects
    /// without the operator's labels are not watched.
    pub(super) async fn live<K: Child>(&self, name: &str) -> Result<Option<Arc<K::Kept>>, Cause> {
        let namespace = &self.identity.namespace;
        if let Some(kept) = self.scope.inventory.kept::<K>(namespace, name) {
            return Ok(Some(kept));
        }
        let api: Api<K::Kept> = Api::namespaced(self.scope.context.client.clone(), namespace);
        Ok(api.get_opt(name).await?.map(Arc::new))
    }

    /// Returns the differences of a live object from the rendered one.
    async fn differences<K: Child>(
        &self,
        name: &str,
        live: &K::Kept,
        rendered: &Value,
    ) -> Result<Vec<FieldChange>, Cause> {
        let mut seen = serde_json::to_value(live)?;
        let mut parts = rendered.as_object().into_iter().flatten();
        if parts.any(|(part, value)| !value.is_null() && seen.get(part).is_none()) {
            // No data of Secrets is kept.
            let whole = self.api::<K>().get_opt(name).await?;
            seen = serde_json::to_value(whole)?;
        }
        Ok(differences(&seen, rendered))
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
}

pub(super) fn kind<K: Child>() -> String {
    K::kind(&()).into_owned()
}

pub(super) fn child<K: Child>(name: &str) -> String {
    format!("{}/{name}", K::kind(&()))
}

fn paths(fields: &[FieldChange]) -> Vec<String> {
    fields.iter().map(|field| field.path.clone()).collect()
}

/// Returns an object as it is compared and written, and its hash, which is one of its annotations: a field that is no longer
/// rendered is a difference, too. JSON objects are sorted by key, so equal objects have equal hashes.
fn render(object: &impl Serialize) -> Result<(Value, String), serde_json::Error> {
    let mut rendered = serde_json::to_value(object)?;
    if let Some(fields) = rendered.as_object_mut() {
        // Metadata that is listed alone has a kind of its own.
        fields.retain(|field, _| field != "apiVersion" && field != "kind");
    }
    let digest = Sha256::digest(rendered.to_string());
    let hash = hexadecimal(digest.iter().take(16));
    rendered["metadata"]["annotations"][APPLIED_HASH] = Value::from(hash.clone());
    Ok((rendered, hash))
}
