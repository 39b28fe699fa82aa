//! From the objects of a stack to what `status` tells about it. Pure.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Pod, Secret, Service},
};
use serde::Serialize;
use serde_json::Value;
use shortener_operator_core::{
    model::metadata::COMPONENT_LABEL,
    plan::conditions::{DEGRADED, PROGRESSING, RECONCILING, STALLED},
};

use super::servers;
use crate::cli::observed::{ObservedStack, text};

/// Condition types that are false on a stack with nothing to tell.
const FALSE_IS_GOOD: [&str; 4] = [PROGRESSING, DEGRADED, RECONCILING, STALLED];
/// States in which a container of a new pod waits for a moment.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Number of changes that are told.
const CHANGES: usize = 10;

/// A stack as `status` tells it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub name: String,
    pub namespace: String,
    /// Base URL of the short links.
    pub url: String,
    /// False until the operator has seen the last edit of the spec.
    pub observed: bool,
    /// Conditions; those that need attention come first.
    pub conditions: Vec<ConditionSummary>,
    pub components: Vec<ComponentSummary>,
    /// The job queue as in the status; null if it is unknown.
    pub queue: Value,
    /// Names of the Services.
    pub services: Vec<String>,
    /// Names of the Secrets.
    pub secrets: Vec<String>,
    /// Last changes, newest first.
    pub changes: Vec<ChangeSummary>,
    /// Reads that failed, one sentence each.
    pub unread: Vec<String>,
}

/// A condition of a stack.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionSummary {
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in CamelCase.
    pub reason: String,
    /// Sentence for people.
    pub message: String,
    /// True when the condition asks for no attention.
    pub good: bool,
}

/// A Deployment or StatefulSet, or a store that another operator runs, with its pods.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentSummary {
    pub name: String,
    pub ready: i64,
    pub desired: i64,
    /// Pods that have the last settings.
    pub updated: i64,
    /// Tag of the first image; empty if it has none.
    pub version: String,
    pub images: Vec<String>,
    /// One sentence for each container that was restarted or cannot start.
    pub containers: Vec<String>,
}

/// A change of an object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSummary {
    /// Time in RFC 3339, to the second.
    pub time: String,
    /// Kind and name of the object.
    pub object: String,
    /// Sentence for people.
    pub what: String,
}

pub fn of(observed: &ObservedStack) -> Summary {
    let ObservedStack { stack, unread, .. } = observed;
    let metadata = &stack["metadata"];
    let status = &stack["status"];
    let stores = observed.of::<StatefulSet>();
    let workloads = stores.chain(observed.of::<Deployment>());
    Summary {
        name: text(&metadata["name"]).to_owned(),
        namespace: text(&metadata["namespace"]).to_owned(),
        url: text(&status["url"]).to_owned(),
        observed: status["observedGeneration"] == metadata["generation"],
        conditions: conditions(status),
        components: workloads
            .map(|workload| component(workload, observed))
            .chain(servers::of(observed))
            .collect(),
        queue: status["queue"].clone(),
        services: names(observed.of::<Service>()),
        secrets: names(observed.of::<Secret>()),
        changes: changes(observed),
        unread: unread.clone(),
    }
}

fn names<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let names = objects.map(|object| text(&object["metadata"]["name"]).to_owned());
    names.collect()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn conditions(status: &Value) -> Vec<ConditionSummary> {
    let condition = |condition: &Value| {
        let type_ = text(&condition["type"]).to_owned();
        let status = text(&condition["status"]).to_owned();
        let wanted = match FALSE_IS_GOOD.contains(&type_.as_str()) {
            true => "False",
            false => "True",
        };
        ConditionSummary {
            good: status == wanted,
            type_,
            status,
            reason: text(&condition["reason"]).to_owned(),
            message: text(&condition["message"]).to_owned(),
        }
    };
    let mut conditions: Vec<ConditionSummary> =
        list(&status["conditions"]).iter().map(condition).collect();
    // A stable sort: otherwise they keep the order of the status, in which requests depend on them.
    conditions.sort_by_key(|condition| condition.good);
    conditions
}

fn component(workload: &Value, observed: &ObservedStack) -> ComponentSummary {
    let label = &workload["metadata"]["labels"][COMPONENT_LABEL];
    let pods = observed
        .of::<Pod>()
        .filter(|pod| pod["metadata"]["labels"][COMPONENT_LABEL] == *label);
    let status = &workload["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let containers = list(&workload["spec"]["template"]["spec"]["containers"]);
    let images: Vec<String> = containers
        .iter()
        .map(|container| text(&container["image"]).to_owned())
        .collect();
    let version = images.first().map(|image| tag(image));
    ComponentSummary {
        name: text(label).to_owned(),
        ready: number("readyReplicas"),
        // The API server fills in 1 for a number that is absent.
        desired: workload["spec"]["replicas"].as_i64().unwrap_or(1),
        updated: number("updatedReplicas"),
        version: version.unwrap_or_default().to_owned(),
        images,
        containers: pods.flat_map(pod_sentences).collect(),
    }
}

/// Returns the tag of an image; the port of a registry is none.
pub(super) fn tag(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map_or("", |(_, tag)| tag)
}

/// Returns a sentence for each container of a pod that was restarted, and one for each that cannot start.
pub(super) fn pod_sentences(pod: &Value) -> Vec<String> {
    let status = &pod["status"];
    let inits = list(&status["initContainerStatuses"]);
    let containers = inits.iter().chain(list(&status["containerStatuses"]));
    let name = text(&pod["metadata"]["name"]);
    containers
        .flat_map(|container| {
            let place = format!("{name}, container {}", text(&container["name"]));
            [waiting(container, &place), restarted(container, &place)]
        })
        .flatten()
        .collect()
}

fn waiting(container: &Value, place: &str) -> Option<String> {
    let waiting = &container["state"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    let message = text(&waiting["message"]);
    let cause = match message {
        "" => reason.to_owned(),
        message => format!("{reason}: {message}"),
    };
    (!STARTING.contains(&reason)).then(|| format!("{place} waits: {cause}"))
}

fn restarted(container: &Value, place: &str) -> Option<String> {
    let count = container["restartCount"].as_i64().filter(|n| *n > 0)?;
    let times = match count {
        1 => "once".to_owned(),
        many => format!("{many} times"),
    };
    let ended = &container["lastState"]["terminated"];
    let cause = match ended["reason"].as_str() {
        Some(reason) => format!(
            ", the last time after {reason} (exit code {}) at {}",
            ended["exitCode"],
            text(&ended["finishedAt"])
        ),
        None => String::new(),
    };
    Some(format!("{place} was restarted {times}{cause}"))
}

/// Returns the last changes, newest first: Events, and edits of the stack and its workloads.
fn changes(observed: &ObservedStack) -> Vec<ChangeSummary> {
    let edited = std::iter::once(&observed.stack)
        .chain(observed.of::<StatefulSet>())
        .chain(observed.of::<Deployment>());
    let edits = edited.flat_map(edits);
    let events = observed.events.iter().map(event);
    let mut changes: Vec<ChangeSummary> = edits.chain(events).collect();
    changes.sort();
    changes.dedup();
    changes.reverse();
    changes.truncate(CHANGES);
    changes
}

fn event(event: &Value) -> ChangeSummary {
    let about = &event["involvedObject"];
    let time = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    let time = time.into_iter().find_map(Value::as_str).unwrap_or_default();
    ChangeSummary {
        time: to_the_second(time),
        object: format!("{} {}", text(&about["kind"]), text(&about["name"])),
        what: format!("{}: {}", text(&event["reason"]), text(&event["message"])),
    }
}

/// Returns the last edit by each field manager. Writes of the status are left out, because every pod that becomes ready is
/// one.
fn edits(object: &Value) -> Vec<ChangeSummary> {
    let entries = list(&object["metadata"]["managedFields"]).iter();
    entries
        .filter(|entry| entry["subresource"].is_null() && entry["time"].is_string())
        .map(|entry| ChangeSummary {
            time: to_the_second(text(&entry["time"])),
            object: format!(
                "{} {}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            ),
            what: format!("written by {}", text(&entry["manager"])),
        })
        .collect()
}

fn to_the_second(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a stack whose app was restarted while it is rolled out.
    pub fn busy_stack() -> ObservedStack {
        let labels = json!({"app.kubernetes.io/component": "app"});
        ObservedStack {
            stack: json!({
                "kind": "ShortenerStack",
                "metadata": {"name": "acme", "namespace": "links", "generation": 2, "managedFields": [
                    {"manager": "kubectl", "time": "2026-01-01T00:00:05Z"},
                    {"manager": "shortener-operator", "subresource": "status", "time": "2026-01-01T00:00:09Z"},
                ]},
                "status": {
                    "observedGeneration": 2,
                    "url": "https://go.example.com",
                    "conditions": [
                        {"type": "Degraded", "status": "False", "reason": "NoFault", "message": "no fault is known"},
                        {"type": "Progressing", "status": "True", "reason": "RollingOut", "message": "1 of 2 pods are new"},
                        {"type": "AppReady", "status": "True", "reason": "RollingOut", "message": "1 of 2 pods are new"},
                        {"type": "CacheReady", "status": "False", "reason": "PodsStarting", "message": "0 of 1 pods"},
                    ],
                    "queue": {"ready": 3, "unacked": 1, "total": 4},
                },
            }),
            objects: vec![
                json!({
                    "kind": "Deployment",
                    "metadata": {"name": "acme-app", "labels": labels},
                    "spec": {"replicas": 2, "template": {"spec": {"containers": [
                        {"name": "app", "image": "registry.test:5000/shortener/app:0.2.0@sha256:00"},
                    ]}}},
                    "status": {"readyReplicas": 2, "updatedReplicas": 1},
                }),
                json!({
                    "kind": "Pod",
                    "metadata": {"name": "acme-app-1", "labels": labels},
                    "status": {"containerStatuses": [{
                        "name": "app", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {
                            "reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-01-01T00:00:07Z",
                        }},
                    }]},
                }),
                json!({"kind": "Service", "metadata": {"name": "acme-app"}}),
                json!({"kind": "Secret", "metadata": {"name": "acme-postgres"}}),
            ],
            events: vec![json!({
                "involvedObject": {"kind": "Pod", "name": "acme-app-1"},
                "reason": "BackOff", "message": "Back-off restarting failed container\nof the pod",
                "eventTime": "2026-01-01T00:00:08.123456Z", "lastTimestamp": null,
            })],
            unread: vec!["cannot read ingresses in namespace links: no right".to_owned()],
        }
    }

    #[test]
    fn what_needs_attention_comes_first() {
        let summary = of(&busy_stack());
        let types: Vec<&str> = summary
            .conditions
            .iter()
            .map(|c| c.type_.as_str())
            .collect();
        assert_eq!(types, ["Progressing", "CacheReady", "Degraded", "AppReady"]);
    }

    #[test]
    fn a_component_counts_its_pods_and_tells_why_containers_ended() {
        let summary = of(&busy_stack());
        assert_eq!(
            summary.components,
            [ComponentSummary {
                name: "app".to_owned(),
                ready: 2,
                desired: 2,
                updated: 1,
                version: "0.2.0".to_owned(),
                images: vec!["registry.test:5000/shortener/app:0.2.0@sha256:00".to_owned()],
                containers: vec![
                    "acme-app-1, container app waits: CrashLoopBackOff".to_owned(),
                    "acme-app-1, container app was restarted 3 times, the last time after OOMKilled (exit code 137) at 2026-01-01T00:00:07Z"
                        .to_owned(),
                ],
            }]
        );
    }

    #[test]
    fn changes_are_the_newest_first_and_leave_out_writes_of_the_status() {
        let changes = of(&busy_stack()).changes;
        let told: Vec<String> = changes
            .iter()
            .map(|change| format!("{} {} {}", change.time, change.object, change.what))
            .collect();
        assert_eq!(
            told,
            [
                "2026-01-01T00:00:08Z Pod acme-app-1 BackOff: Back-off restarting failed container\nof the pod",
                "2026-01-01T00:00:05Z ShortenerStack acme written by kubectl",
            ]
        );
    }

    #[test]
    fn the_port_of_a_registry_is_no_version() {
        for (image, expected) in [
            ("app", ""),
            ("r.test:5000/app", ""),
            ("r.test:5000/app:1.2", "1.2"),
            ("app@sha256:00", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }

    #[test]
    fn a_stack_that_the_operator_has_not_seen_is_summarized_too() {
        let stack = json!({"metadata": {"name": "new", "namespace": "links", "generation": 1}, "status": {"observedGeneration": -1}});
        let summary = of(&ObservedStack {
            stack,
            ..ObservedStack::default()
        });
        assert!(!summary.observed);
        assert_eq!(summary.queue, Value::Null);
    }
}
