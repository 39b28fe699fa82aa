//! Facts about a managed database whose links are to move to a Cluster.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::PersistentVolumeClaim,
};
use kube::Api;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        cloud_native_pg::{self, Cluster},
        credentials::USERNAME_KEY,
        facts::{ClaimFact, MoveFacts},
        kinds::Deletion,
        metadata::{Component, StackIdentity, component_name},
    },
};

use super::{read_secret, store};
use crate::reconcile::context::Scope;

/// Reads the objects of a move of the links to a Cluster. Of a stack that asks for none, only the server matters, from which a
/// move may have taken the writes.
pub(super) async fn facts(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
) -> Result<MoveFacts, kube::Error> {
    let mut facts = MoveFacts {
        server: scope.own_child::<StatefulSet>(identity, Component::Postgres, Deletion::Pruned),
        ..MoveFacts::default()
    };
    if stack.spec.database.cloud_native_pg.is_none() {
        return Ok(facts);
    }
    let (inventory, namespace) = (&scope.inventory, &identity.namespace);
    let name = cloud_native_pg::name(&identity.name);
    facts.cluster = inventory.kept::<Cluster>(namespace, &name);
    facts.comparison = scope.own_child::<Deployment>(identity, Component::Move, Deletion::Pruned);
    facts.claim = match &facts.server {
        Some(_) => store::claim(scope, identity, Component::Postgres).await?,
        None => {
            let (component, deletion) = (Component::Postgres, Deletion::Retained);
            let own = scope.own_child::<PersistentVolumeClaim>(identity, component, deletion);
            own.as_deref().map(ClaimFact::of)
        }
    };
    if facts.server.is_some() {
        let secret = component_name(&identity.name, Component::Postgres);
        let secret = read_secret(scope, identity, &secret).await?;
        let username = secret.and_then(|secret| secret.data?.remove(USERNAME_KEY));
        facts.username = username.and_then(|name| String::from_utf8(name.0).ok());
        if facts.cluster.is_none() && inventory.serves_clusters() {
            // One that others made is not watched.
            let clusters = Api::<Cluster>::namespaced(scope.context.client.clone(), namespace);
            facts.cluster = clusters.get_opt(&name).await?.map(Arc::new);
        }
    }
    Ok(facts)
}
