//! The child objects of a stack, as dynamic objects.

use anyhow::Result;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use shortener_operator_core::model::{
    gateway_api,
    kinds::{Presence, kinds},
};

use crate::harness::Stack;

/// Returns every kind that a stack consists of, without those that a cluster may lack.
pub fn child_kinds() -> Vec<ApiResource> {
    let all = kinds().into_iter();
    let kinds = all.filter(|kind| kind.presence == Presence::Always);
    kinds.map(|kind| kind.resource).collect()
}

/// Returns the kinds of children that belong to the Prometheus operator. The test cluster lacks them at first.
pub fn monitoring_kinds() -> Vec<ApiResource> {
    of_group("monitoring.coreos.com")
}

fn of_group(group: &str) -> Vec<ApiResource> {
    let all = kinds().into_iter().map(|kind| kind.resource);
    all.filter(|kind| kind.group == group).collect()
}

#[derive(Clone)]
pub struct Child {
    pub kind: ApiResource,
    pub name: String,
    /// The API of its kind in its namespace.
    pub api: Api<DynamicObject>,
    /// The object as it was when it was listed.
    pub seen: DynamicObject,
}

impl Child {
    /// Returns `Kind/name`, for messages and tables.
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind.kind, self.name)
    }
}

/// Returns every child of a stack, found by the labels that all children carry, without monitoring objects.
pub async fn children_of(stack: &Stack) -> Result<Vec<Child>> {
    let selector = ListParams::default().labels(&format!(
        "app.kubernetes.io/managed-by=shortener-operator,app.kubernetes.io/instance={}",
        stack.name
    ));
    let mut children = Vec::new();
    // The test cluster has the kinds of the Gateway API from the beginning.
    let optional = of_group(gateway_api::GROUP);
    for kind in child_kinds().into_iter().chain(optional) {
        let (client, namespace) = (stack.client.clone(), &stack.namespace);
        let api = Api::<DynamicObject>::namespaced_with(client, namespace, &kind);
        for seen in api.list(&selector).await?.items {
            children.push(Child {
                kind: kind.clone(),
                name: seen.name_any(),
                api: api.clone(),
                seen,
            });
        }
    }
    Ok(children)
}
