//! The end of a drill in a stack to which nothing else is applied: one that is paused, only planned or being deleted, that
//! cannot be parsed, or of which a part is held. Where the children are applied, they are given back in the same write.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{Api, Resource, ResourceExt, api::Patch, core::NamespaceResourceScope};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        cloud_native_pg::{Cluster, HIBERNATION},
        drill::DRILL,
        metadata::StackIdentity,
    },
};

use super::{Error, context::Scope};
use crate::kubernetes::{inventory::Cached, patches::merging, refusal};

/// Gives back every store that is marked as taken away, unless a drill is active.
///
/// # Errors
/// The first failure. The other stores are given back all the same.
pub(super) async fn lift(
    scope: &Scope,
    identity: &StackIdentity,
    stack: Option<&ShortenerStack>,
) -> Result<(), Error> {
    let now = (scope.context.clock)();
    if stack.is_some_and(|stack| scope.context.drills.active(stack, now).is_some()) {
        return Ok(());
    }
    let (inventory, namespace) = (&scope.inventory, identity.namespace.as_str());
    let mut lifted = Ok(());
    for server in inventory.of_stack::<StatefulSet>(namespace, &identity.name) {
        let scaled = json!({"spec": {"replicas": 1}});
        lifted = lifted.and(give_back(scope, namespace, &*server, scaled).await);
    }
    for cluster in inventory.of_stack::<Cluster>(namespace, &identity.name) {
        let woken = json!({"metadata": {"annotations": {HIBERNATION: "off"}}});
        lifted = lifted.and(give_back(scope, namespace, &*cluster, woken).await);
    }
    lifted.map_err(Error::Lift)
}

/// Removes the mark of an object together with its effect. The cache may be stale: an object that has changed meanwhile stays
/// as it is until its change is seen.
async fn give_back<K: Cached + Resource<Scope = NamespaceResourceScope>>(
    scope: &Scope,
    namespace: &str,
    marked: &K,
    mut patch: Value,
) -> kube::Result<()> {
    if !marked.annotations().contains_key(DRILL) {
        return Ok(());
    }
    patch["metadata"]["annotations"][DRILL] = Value::Null;
    patch["metadata"]["resourceVersion"] = json!(marked.resource_version());
    patch["metadata"]["uid"] = json!(marked.uid());
    let api: Api<K> = Api::namespaced(scope.context.client.clone(), namespace);
    let name = marked.name_any();
    match api.patch(&name, &merging(), &Patch::Merge(patch)).await {
        Ok(_) => {
            tracing::info!(
                name,
                namespace,
                "the store of a drill that is over was given back"
            );
            Ok(())
        }
        Err(kube::Error::Api(status)) if refusal::is_absent(&status) || status.code == 409 => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
