//! The stacks of all namespaces and their routes, on which it depends whether a stack gets its hosts.

use std::fmt::Debug;

use k8s_openapi::{NamespaceResourceScope, api::networking::v1::Ingress};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    runtime::{
        reflector::{self, Store},
        watcher::Event,
    },
};
use serde::de::DeserializeOwned;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{facts::HostClaim, gateway_api::HttpRoute, metadata::managed_by_selector},
};

use super::PlanError;
use crate::{
    kubernetes::children::{ReadError, present},
    reconcile::context::GuardedStack,
};

/// The error of a cluster without the resource definition.
const NO_DEFINITION: &str =
    "the cluster does not have the kind ShortenerStack: install the operator, or use --offline";

/// The stacks of the cluster, and the routes that record their claims on hosts. Of a kind that the user may not list in the
/// whole cluster, these are the objects of the namespace.
pub(super) struct Neighbours {
    pub(super) stacks: Store<GuardedStack>,
    pub(super) ingresses: Store<Ingress>,
    pub(super) routes: Store<HttpRoute>,
    /// Plurals of the kinds that are known in the namespace alone.
    hidden: Vec<String>,
}

impl Neighbours {
    /// Reads what the user may list.
    pub(super) async fn read(client: &Client, namespace: &str) -> Result<Self, PlanError> {
        let (every, labels) = (ListParams::default(), managed_by_selector());
        let of_stacks = ListParams::default().labels(&labels);
        let mut hidden = Vec::new();
        let stacks = list::<GuardedStack>(client, namespace, &every, &mut hidden).await?;
        let ingresses = list::<Ingress>(client, namespace, &of_stacks, &mut hidden).await?;
        let routes = list::<HttpRoute>(client, namespace, &of_stacks, &mut hidden).await?;
        Ok(Self {
            stacks: store(stacks.ok_or(NO_DEFINITION)?),
            ingresses: store(ingresses.unwrap_or_default()),
            routes: store(routes.unwrap_or_default()),
            hidden,
        })
    }

    /// Returns a note if a stack of another namespace may serve a host of this one unseen.
    pub(super) fn note(&self, stack: &ShortenerStack) -> Option<String> {
        let shares_hosts = HostClaim::of(stack).is_some();
        (shares_hosts && !self.hidden.is_empty()).then(|| {
            format!(
                "whether a stack of another namespace serves a host of this one is unknown: you may not list {} in the \
                 whole cluster",
                self.hidden.join(", ")
            )
        })
    }
}

/// Lists the objects of a kind in the cluster, or in the namespace if the user may not list the others; `None` if the cluster
/// lacks the kind.
async fn list<K>(
    client: &Client,
    namespace: &str,
    params: &ListParams,
    hidden: &mut Vec<String>,
) -> Result<Option<Vec<K>>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let (all, own): (Api<K>, Api<K>) = (
        Api::all(client.clone()),
        Api::namespaced(client.clone(), namespace),
    );
    let plural = K::plural(&());
    let mut found = all.list(params).await;
    if matches!(&found, Err(kube::Error::Api(status)) if status.is_forbidden()) {
        hidden.push(plural.to_string());
        found = own.list(params).await;
    }
    let what = || format!("{plural} in namespace {namespace}");
    Ok(present(found, what)?.map(|list| list.items))
}

fn store<K>(objects: Vec<K>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let (reader, mut writer) = reflector::store();
    for object in objects {
        writer.apply_watcher_event(&Event::Apply(object));
    }
    reader
}
