//! The child objects of a stack, as dynamic objects.

use anyhow::Result;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};

use crate::harness::Stack;

/// A kind of child object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Name in URLs.
    pub plural: &'static str,
}

/// Every kind that a stack consists of. All are at version `v1` of their group.
pub const CHILD_KINDS: [Kind; 10] = [
    kind("", "ServiceAccount", "serviceaccounts"),
    kind("", "Secret", "secrets"),
    kind("", "PersistentVolumeClaim", "persistentvolumeclaims"),
    kind("", "ConfigMap", "configmaps"),
    kind("", "Service", "services"),
    kind("apps", "StatefulSet", "statefulsets"),
    kind("apps", "Deployment", "deployments"),
    kind("networking.k8s.io", "Ingress", "ingresses"),
    kind("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
    kind("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
];

const fn kind(group: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind {
        group,
        kind,
        plural,
    }
}

impl Kind {
    /// Returns the API of this kind in a namespace.
    pub fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(self.group, "v1", self.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, self.plural);
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

/// One child object.
#[derive(Clone)]
pub struct Child {
    /// Its kind.
    pub kind: Kind,
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
    for kind in CHILD_KINDS {
        let api = kind.api(&stack.client, &stack.namespace);
        for seen in api.list(&selector).await?.items {
            children.push(Child {
                kind,
                name: seen.name_any(),
                api: api.clone(),
                seen,
            });
        }
    }
    Ok(children)
}
