//! A stack and its objects as JSON, as the API server tells them. JSON instead of types, so that a resource of another
//! release, or one that does not parse, is shown as well.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Event, Pod, Secret},
};
use kube::{Client, Resource, core::Selector, discovery::ApiResource};
use serde_json::Value;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        cloud_native_pg::{self, CLUSTER_LABEL},
        kinds::kinds,
        metadata::{NAME_LABEL, stack_labels},
        rabbitmq_cluster,
    },
};

use super::cluster::Reader;

/// A stack and its objects.
#[derive(Clone, Debug, Default)]
pub struct ObservedStack {
    pub stack: Value,
    /// Children and pods; of Secrets only the metadata.
    pub objects: Vec<Value>,
    /// Events about the stack and these objects.
    pub events: Vec<Value>,
    /// Reads that failed, one sentence each.
    pub unread: Vec<String>,
}

/// An error that leaves no stack to tell about.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The API server refused the read or did not answer.
    #[error("{0}")]
    Unread(String),
    /// There is no stack of this name, or none at all.
    #[error("no ShortenerStack {0}: check the name, --namespace and --context")]
    Missing(String),
    /// The cluster lacks the kind.
    #[error("the cluster does not have the kind {0}: install the operator, or check --context")]
    Lacking(String),
}

/// Returns the stack of this name, or all of them; in every namespace if none is given.
///
/// # Errors
/// [`FindError`]
pub async fn find(
    client: &Client,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Vec<Value>, FindError> {
    let stacks = list::<ShortenerStack>(client, namespace, "").await?;
    let wanted = |stack: &Value| name.is_none_or(|name| stack["metadata"]["name"] == name);
    let found: Vec<Value> = stacks.into_iter().filter(wanted).collect();
    if found.is_empty() {
        let name = name.map(str::to_owned);
        let place = namespace.map(|namespace| format!("in namespace {namespace}"));
        let place = place.unwrap_or_else(|| "in the cluster".to_owned());
        let words: Vec<String> = name.into_iter().chain([place]).collect();
        return Err(FindError::Missing(words.join(" ")));
    }
    Ok(found)
}

/// Lists the objects of a kind, in every namespace if none is given.
///
/// # Errors
/// The API server refused the read or did not answer, or the cluster lacks the kind.
pub async fn list<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<Value>, FindError> {
    let mut reader = Reader::new(client.clone());
    let objects = reader
        .list(&ApiResource::erase::<K>(&()), namespace, selector)
        .await;
    match (reader.lacking.pop(), reader.unread.pop()) {
        (Some(kind), _) => Err(FindError::Lacking(kind)),
        (None, Some(line)) => Err(FindError::Unread(line)),
        (None, None) => Ok(objects),
    }
}

/// Reads the objects of a stack and the Events about them.
pub async fn observe(client: &Client, stack: Value) -> ObservedStack {
    let mut reader = Reader::new(client.clone());
    let name = text(&stack["metadata"]["name"]);
    let namespace = Some(text(&stack["metadata"]["namespace"]));
    let selector = Selector::from_iter(stack_labels(name)).to_string();
    let secrets = ApiResource::erase::<Secret>(&());
    let mut all: Vec<ApiResource> = kinds().into_iter().map(|kind| kind.resource).collect();
    all.extend([
        ApiResource::erase::<ReplicaSet>(&()),
        ApiResource::erase::<Pod>(&()),
    ]);
    let mut objects = Vec::new();
    for kind in all {
        objects.extend(if kind == secrets {
            reader.list_metadata(&kind, namespace, &selector).await
        } else {
            reader.list(&kind, namespace, &selector).await
        });
    }
    let pods = ApiResource::erase::<Pod>(&());
    for selector in servers(&objects) {
        objects.extend(reader.list(&pods, namespace, &selector).await);
    }
    let events = ApiResource::erase::<Event>(&());
    let events = reader.list(&events, namespace, "").await;
    let events = about(events, &stack, &objects);
    let mut unread = reader.unread;
    // Pods are read more than once.
    unread.dedup();
    ObservedStack {
        stack,
        objects,
        events,
        unread,
    }
}

/// Returns the selectors of the pods that other operators run for these objects. They lack the labels of the stack.
fn servers(objects: &[Value]) -> Vec<String> {
    let selector = |object: &Value| {
        let label = match text(&object["kind"]) {
            kind if kind == cloud_native_pg::RUNNER.kind => CLUSTER_LABEL,
            kind if kind == rabbitmq_cluster::RUNNER.kind => NAME_LABEL,
            _ => return None,
        };
        Some(format!("{label}={}", text(&object["metadata"]["name"])))
    };
    objects.iter().filter_map(selector).collect()
}

/// Returns those of the Events that are about the stack or one of its objects. Their uid decides, because the name of
/// one stack can begin with that of another.
fn about(events: Vec<Value>, stack: &Value, objects: &[Value]) -> Vec<Value> {
    let uids: BTreeSet<&str> = std::iter::once(stack)
        .chain(objects)
        .filter_map(|object| object["metadata"]["uid"].as_str())
        .collect();
    let known = |event: &Value| {
        let uid = event["involvedObject"]["uid"].as_str();
        uid.is_some_and(|uid| uids.contains(uid))
    };
    events.into_iter().filter(known).collect()
}

impl ObservedStack {
    /// Returns the objects of a kind.
    pub fn of<K: Resource<DynamicType = ()>>(&self) -> impl Iterator<Item = &Value> {
        let kind = K::kind(&());
        self.objects
            .iter()
            .filter(move |object| object["kind"] == *kind)
    }

    /// Returns the pods that another operator runs for an object and marks with its name by a label.
    pub fn pods_of(&self, label: &str, owner: &Value) -> Vec<&Value> {
        let name = &owner["metadata"]["name"];
        let pods = self.of::<Pod>();
        pods.filter(|pod| pod["metadata"]["labels"][label] == *name)
            .collect()
    }
}

/// Returns the text of a JSON string, and an empty text for every other value.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shortener_operator_core::model::cloud_native_pg::Cluster;

    use super::*;
    use crate::testing::{
        api_server::{FakeApiServer, Fault},
        shared::stored_stack,
    };

    fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, instance: &str) -> Pod {
        object(
            json!({"metadata": {"name": name, "namespace": "links", "labels": {
                "app.kubernetes.io/name": "shortener", "app.kubernetes.io/instance": instance,
            }}}),
        )
    }

    #[tokio::test]
    async fn a_stack_comes_with_its_own_objects_and_the_events_about_them() {
        let server = FakeApiServer::default();
        server.create(&stored_stack(json!({})));
        let own = server.create(&pod("acme-app-0", "acme"));
        let other = server.create(&pod("acme-app-gateway-0", "acme-app"));
        for (name, pod) in [("own", &own), ("other", &other)] {
            let event: Event = object(json!({
                "metadata": {"name": name, "namespace": "links"},
                "involvedObject": {"uid": pod.metadata.uid}, "reason": name,
            }));
            server.create(&event);
        }
        let client = server.client();
        let stack = find(&client, Some("links"), Some("acme")).await.unwrap();
        let observed = observe(&client, stack.into_iter().next().unwrap()).await;
        let names: Vec<&str> = observed
            .of::<Pod>()
            .map(|pod| text(&pod["metadata"]["name"]))
            .collect();
        assert_eq!(names, ["acme-app-0"]);
        let reasons: Vec<&str> = observed.events.iter().map(|e| text(&e["reason"])).collect();
        assert_eq!(reasons, ["own"]);
        assert_eq!(observed.unread, Vec::<String>::new());
    }

    #[tokio::test]
    async fn rights_that_are_missing_do_not_end_the_observation() {
        let server = FakeApiServer::default();
        let client = server.client();
        server.fail_all(Some(Fault::Refuse(403)));
        let stack = serde_json::to_value(stored_stack(json!({}))).unwrap();
        let observed = observe(&client, stack).await;
        let of_pods = "cannot read pods in namespace links: this failure was asked for";
        assert!(
            observed.unread.iter().any(|line| line == of_pods),
            "{:?}",
            observed.unread
        );
    }

    #[tokio::test]
    async fn a_stack_that_is_not_there_is_named() {
        let client = FakeApiServer::default().client();
        let error = find(&client, Some("links"), Some("acme"))
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "no ShortenerStack acme in namespace links: check the name, --namespace and --context"
        );
    }

    #[tokio::test]
    async fn a_cluster_without_the_definition_is_told() {
        let server = FakeApiServer::default();
        server.fail_all(Some(Fault::Refuse(404)));
        let error = find(&server.client(), None, None).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("does not have the kind ShortenerStack"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_store_of_another_operator_comes_with_its_pods() {
        let server = FakeApiServer::default();
        let cluster: Cluster = object(json!({
            "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster",
            "metadata": {"name": "acme-pg", "namespace": "links", "labels": stack_labels("acme")},
            "spec": {"instances": 3},
        }));
        server.create(&cluster);
        for (name, cluster) in [("acme-pg-1", "acme-pg"), ("other-pg-1", "other-pg")] {
            let labels = json!({"cnpg.io/cluster": cluster});
            let pod: Pod =
                object(json!({"metadata": {"name": name, "namespace": "links", "labels": labels}}));
            server.create(&pod);
        }
        let stack = serde_json::to_value(stored_stack(json!({}))).unwrap();
        let observed = observe(&server.client(), stack).await;
        let cluster = observed.of::<Cluster>().next().unwrap();
        let pods = observed.pods_of(CLUSTER_LABEL, cluster);
        assert_eq!(pods.len(), 1);
        assert_eq!(pods[0]["metadata"]["name"], "acme-pg-1");
    }
}
