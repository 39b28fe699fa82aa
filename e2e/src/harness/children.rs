//! The child objects of a stack, as dynamic objects.

use anyhow::Result;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use shortener_operator_core::model::kinds::{Presence, kinds};

use crate::harness::Stack;

/// Returns every kind that a stack consists of, without those that a cluster may lack.
pub fn child_kinds() -> Vec<ApiResource> {
    with_presence(Presence::Always)
}

/// Returns the kinds of children that a cluster may lack.
pub fn optional_kinds() -> Vec<ApiResource> {
    with_presence(Presence::Optional)
}

fn with_presence(presence: Presence) -> Vec<ApiResource> {
    let all = kinds().into_iter();
    let kinds = all.filter(|kind| kind.presence == presence);
    kinds.map(|kind| kind.resource).collect()
}

/// One child object.
#[derive(Clone)]
pub struct Child {
    /// Its kind.
    pub kind: ApiResource,
    /// Its name.
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

/// Returns every child of a stack, found by the labels that all children carry.
pub async fn children_of(stack: &Stack) -> Result<Vec<Child>> {
    let selector = ListParams::default().labels(&format!(
        "app.kubernetes.io/managed-by=shortener-operator,app.kubernetes.io/instance={}",
        stack.name
    ));
    let mut children = Vec::new();
    for kind in child_kinds() {
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
