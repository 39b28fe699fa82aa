//! Collects the material of a report. Reads only; a read that is refused becomes a note in the report.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod, Secret},
};
use kube::{Api, Client, api::LogParams, discovery::ApiResource};
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::INSTANCE_LABEL;

use super::{ReportArguments, document::Material};
use crate::cli::{
    cluster::Reader,
    observed::{self, text},
};

/// Label of the chart on the operator's own objects.
const OPERATOR: &str = "app.kubernetes.io/name=shortener-operator";
/// Note in a report of which not every Secret was read.
const UNSEARCHED: &str = "not every Secret of the stack was read, so their values were not searched for: read the report before you share it";

/// Collects the material of a report about a stack.
pub async fn collect(client: &Client, stack: Value, arguments: &ReportArguments) -> Material {
    let observed = observed::observe(client, stack).await;
    let mut reader = Reader::new(client.clone());
    let secrets = secrets(&mut reader, &observed.stack).await;
    let version = client.apiserver_version().await;
    let version = reader.keep("the version of the API server", version);
    let nodes = reader
        .list(&ApiResource::erase::<Node>(&()), None, "")
        .await;
    let place = arguments.operator_namespace.as_deref();
    let mut operator = Vec::new();
    for kind in [
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Pod>(&()),
    ] {
        operator.extend(reader.list(&kind, place, OPERATOR).await);
    }
    if operator.is_empty() {
        let note = format!("no operator with the label {OPERATOR} was found");
        reader.unread.push(note);
    }
    let mut logs = BTreeMap::new();
    let pods = observed.of::<Pod>();
    let of_operator = operator.iter().filter(|object| object["kind"] == "Pod");
    for pod in pods.chain(of_operator) {
        logs.extend(logs_of(&mut reader, pod, arguments.lines).await);
    }
    let mut material = Material {
        observed,
        secrets,
        operator,
        kubernetes: json!(version),
        nodes: nodes.iter().map(node).collect(),
        logs,
    };
    material.observed.unread.append(&mut reader.unread);
    material
}

/// Returns what tells a node from another one: its versions, and the conditions that are not as they should be.
fn node(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array();
    let bad = conditions.into_iter().flatten().filter(|condition| {
        let good = match text(&condition["type"]) {
            "Ready" => "True",
            _ => "False",
        };
        condition["status"] != good
    });
    json!({
        "name": node["metadata"]["name"],
        "versions": node["status"]["nodeInfo"],
        "allocatable": node["status"]["allocatable"],
        "conditions": bad.collect::<Vec<&Value>>(),
    })
}

/// Reads the Secrets of a stack: its own, and all whose names occur in its spec.
async fn secrets(reader: &mut Reader, stack: &Value) -> Vec<Secret> {
    let namespace = text(&stack["metadata"]["namespace"]);
    let before = reader.unread.len();
    let kind = ApiResource::erase::<Secret>(&());
    let all = reader.list_metadata(&kind, Some(namespace), "").await;
    let mut named = BTreeSet::new();
    texts(&stack["spec"], &mut named);
    let wanted = all.iter().map(|secret| &secret["metadata"]).filter(|it| {
        it["labels"][INSTANCE_LABEL] == stack["metadata"]["name"]
            || named.contains(text(&it["name"]))
    });
    let api: Api<Secret> = Api::namespaced(reader.client.clone(), namespace);
    let mut secrets = Vec::new();
    for metadata in wanted {
        let name = text(&metadata["name"]);
        let secret = api.get(name).await;
        let what = format!("Secret {name} in namespace {namespace}");
        secrets.extend(reader.keep(&what, secret));
    }
    if reader.unread.len() > before {
        reader.unread.push(UNSEARCHED.to_owned());
    }
    secrets
}

/// Finds every text in a value.
fn texts<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => {
            found.insert(text);
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads the last lines of each container of a pod, and of the run before if it was restarted.
async fn logs_of(reader: &mut Reader, pod: &Value, lines: i64) -> BTreeMap<String, String> {
    let namespace = text(&pod["metadata"]["namespace"]);
    let name = text(&pod["metadata"]["name"]);
    let api: Api<Pod> = Api::namespaced(reader.client.clone(), namespace);
    let mut logs = BTreeMap::new();
    for (container, restarted) in containers(pod) {
        let runs: &[bool] = if restarted { &[false, true] } else { &[false] };
        for previous in runs {
            let which = if *previous { " (previous)" } else { "" };
            let title = format!("{namespace}/{name}/{container}{which}");
            let wanted = LogParams {
                container: Some(container.to_owned()),
                previous: *previous,
                tail_lines: Some(lines),
                timestamps: true,
                ..LogParams::default()
            };
            let log = api.logs(name, &wanted).await;
            if let Some(log) = reader.keep(&format!("the log {title}"), log) {
                logs.insert(title, log);
            }
        }
    }
    logs
}

/// Returns the containers of a pod that have started, each with true if it was restarted.
fn containers(pod: &Value) -> Vec<(&str, bool)> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let lists = lists.iter().map(|list| pod["status"][*list].as_array());
    let containers = lists.flatten().flatten();
    containers
        .filter(|container| container["state"]["waiting"].is_null() || is_restarted(container))
        .map(|container| (text(&container["name"]), is_restarted(container)))
        .collect()
}

fn is_restarted(container: &Value) -> bool {
    container["restartCount"].as_i64() > Some(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::testing::{
        api_server::{FakeApiServer, Fault},
        shared::stored_stack,
    };

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: ReportArguments,
    }

    fn arguments() -> ReportArguments {
        CommandLine::try_parse_from(["report", "acme"])
            .unwrap()
            .arguments
    }

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn server() -> FakeApiServer {
        let server = FakeApiServer::default();
        let own =
            json!({"app.kubernetes.io/name": "shortener", "app.kubernetes.io/instance": "acme"});
        for (name, labels) in [
            ("acme-postgres", own.clone()),
            ("mq", json!({})),
            ("other", json!({})),
        ] {
            let secret: Secret = object(json!({
                "metadata": {"name": name, "namespace": "links", "labels": labels},
                "data": {"password": "czNjcmV0"},
            }));
            server.create(&secret);
        }
        let node: Node = object(json!({
            "metadata": {"name": "node-a"},
            "status": {
                "nodeInfo": {
                    "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2",
                    "kernelVersion": "6", "kubeProxyVersion": "", "kubeletVersion": "v1.36.0", "machineID": "",
                    "operatingSystem": "linux", "osImage": "", "systemUUID": "",
                },
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "DiskPressure", "status": "True"},
                    {"type": "PIDPressure", "status": "False"},
                ],
            },
        }));
        server.create(&node);
        server
    }

    fn stack() -> Value {
        let external = json!({"queue": {"external": {"secretRef": {"name": "mq"}}}});
        serde_json::to_value(stored_stack(external)).unwrap()
    }

    #[tokio::test]
    async fn the_secrets_of_a_stack_are_its_own_and_those_that_its_spec_names() {
        let material = collect(&server().client(), stack(), &arguments()).await;
        let names: Vec<String> = material
            .secrets
            .into_iter()
            .filter_map(|secret| secret.metadata.name)
            .collect();
        assert_eq!(names, ["acme-postgres", "mq"]);
        assert_eq!(material.nodes[0]["versions"]["kubeletVersion"], "v1.36.0");
        assert_eq!(
            material.nodes[0]["conditions"],
            json!([{"type": "DiskPressure", "status": "True"}])
        );
    }

    #[tokio::test]
    async fn secrets_that_cannot_be_read_are_a_warning_in_the_report() {
        let server = server();
        let client = server.client();
        server.fail_all(Some(Fault::Refuse(403)));
        let material = collect(&client, stack(), &arguments()).await;
        let notes = &material.observed.unread;
        assert!(notes.iter().any(|note| note == UNSEARCHED), "{notes:?}");
        let nodes = "cannot read nodes of the cluster: this failure was asked for";
        assert!(notes.iter().any(|note| note == nodes), "{notes:?}");
    }

    #[test]
    fn only_a_restarted_container_has_a_log_of_the_run_before() {
        let pod = json!({"status": {
            "initContainerStatuses": [{"name": "migrate", "restartCount": 0, "state": {"terminated": {}}}],
            "containerStatuses": [
                {"name": "app", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                {"name": "new", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            ],
        }});
        assert_eq!(containers(&pod), [("migrate", false), ("app", true)]);
    }
}
