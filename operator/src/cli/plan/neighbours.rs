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
    api::{GatewayProvider, ShortenerStack},
    model::{gateway_api::HttpRoute, metadata::managed_by_selector},
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
        // A route of the other kind has another entry.
        let apart = match stack.spec.gateway.provider {
            GatewayProvider::IngressNginx => HttpRoute::plural(&()),
            GatewayProvider::GatewayApi => Ingress::plural(&()),
            GatewayProvider::Standalone => return None,
        };
        let hidden = self.hidden.iter().map(String::as_str);
        let hidden: Vec<&str> = hidden.filter(|kind| *kind != apart).collect();
        (!hidden.is_empty()).then(|| {
            format!(
                "whether a stack of another namespace serves a host of this one is unknown: you may not list {} in the \
                 whole cluster",
                hidden.join(", ")
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::shared::stored_stack;

    #[test]
    fn the_note_names_only_kinds_that_can_take_a_host_of_the_stack() {
        let note = |gateway: &Value, hidden: &[&str]| {
            let hidden = hidden.iter().map(|kind| (*kind).to_owned());
            let neighbours = Neighbours {
                stacks: store(Vec::new()),
                ingresses: store(Vec::new()),
                routes: store(Vec::new()),
                hidden: hidden.collect(),
            };
            neighbours.note(&stored_stack(json!({"gateway": gateway})))
        };
        let nginx = json!({"provider": "IngressNginx"});
        let api = json!({"provider": "GatewayAPI", "parentRefs": [{"name": "public"}]});
        assert_eq!(note(&nginx, &["httproutes"]), None);
        assert_eq!(note(&api, &["ingresses"]), None);
        let all = ["shortenerstacks", "ingresses", "httproutes"];
        for (gateway, kinds) in [
            (nginx, "shortenerstacks, ingresses in"),
            (api, "shortenerstacks, httproutes in"),
        ] {
            let text = note(&gateway, &all).unwrap();
            assert!(text.contains(kinds), "{text}");
        }
        assert_eq!(note(&json!({"provider": "Standalone"}), &all), None);
    }
}
