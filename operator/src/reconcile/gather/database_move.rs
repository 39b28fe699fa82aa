//! Facts about a managed database whose links are to move to a Cluster.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::Api;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        cloud_native_pg::{self, Cluster},
        credentials::USERNAME_KEY,
        facts::MoveFacts,
        kinds::Deletion,
        metadata::{Component, StackIdentity, component_name},
        ownership::{Ownership, ownership},
    },
};

use super::{read_secret, store};
use crate::{kubernetes::inventory::Child, reconcile::context::Scope};

/// Reads the objects of a managed database, if the stack asks for a Cluster.
pub(super) async fn facts(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
) -> Result<Option<MoveFacts>, kube::Error> {
    if stack.spec.database.cloud_native_pg.is_none() {
        return Ok(None);
    }
    let (inventory, namespace) = (&scope.inventory, &identity.namespace);
    let name = cloud_native_pg::name(&identity.name);
    let cluster = inventory.kept::<Cluster>(namespace, &name);
    let server = own::<StatefulSet>(scope, identity, Component::Postgres);
    let mut facts = MoveFacts {
        cluster,
        comparison: own::<Deployment>(scope, identity, Component::Move),
        ..MoveFacts::default()
    };
    if server.is_some() {
        let secret = component_name(&identity.name, Component::Postgres);
        let secret = read_secret(scope, identity, &secret).await?;
        let username = secret.and_then(|secret| secret.data?.remove(USERNAME_KEY));
        facts.username = username.and_then(|name| String::from_utf8(name.0).ok());
        facts.claim = store::claim(scope, identity, Component::Postgres).await?;
        if facts.cluster.is_none() && inventory.serves_clusters() {
            // One that others made is not watched.
            let clusters = Api::<Cluster>::namespaced(scope.context.client.clone(), namespace);
            facts.cluster = clusters.get_opt(&name).await?.map(Arc::new);
        }
        facts.server = server;
    }
    Ok(Some(facts))
}

/// Returns the object of a component, if there is one that belongs to the stack and is not being deleted.
fn own<K: Child<Kept = K>>(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
) -> Option<Arc<K>> {
    let name = component_name(&identity.name, component);
    let live = scope.inventory.kept::<K>(&identity.namespace, &name)?;
    let meta = live.meta();
    let ours = ownership(meta, identity, Deletion::Pruned) == Ownership::Ours;
    (ours && meta.deletion_timestamp.is_none()).then_some(live)
}
