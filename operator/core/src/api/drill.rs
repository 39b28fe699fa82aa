//! The custom resource `ShortenerDrill`: a store of a stack is taken away for a while, and given back. With its fields,
//! defaults and admission rules. It contains no behaviour.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{names, schema};

/// Longest time in seconds for which a drill takes a store away.
pub const LONGEST_DRILL: i32 = 600;

/// The drills of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrillsSpec {
    /// Allows drills (`ShortenerDrill`) of the stack when true. When false, drills are refused, and one that is active ends.
    #[serde(default)]
    pub enabled: bool,
}

/// A store of a stack that is taken away for a while. The operator gives it back, whatever happens to this object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    crates(kube = "::kube_derive", kube_core = "::kube_core"),
    group = "shortener.dev",
    version = "v1alpha1",
    kind = "ShortenerDrill",
    plural = "shortenerdrills",
    shortname = "sdr",
    namespaced,
    derive = "PartialEq",
    status = "ShortenerDrillStatus",
    doc = "A drill: a store of a ShortenerStack is taken away for a while and given back, and the status reports the answers that users got.",
    printcolumn(name = "Stack", type_ = "string", json_path = ".spec.stackRef.name"),
    printcolumn(name = "Store", type_ = "string", json_path = ".spec.store"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.verdict"),
    printcolumn(
        name = "End",
        type_ = "date",
        json_path = ".status.endTime",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Complete")].reason"#,
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self == oldSelf").message("spec cannot change: delete the drill and create another one")
)]
#[expect(
    clippy::duplicated_attributes,
    reason = "columns may have the same type"
)]
#[serde(rename_all = "camelCase")]
pub struct ShortenerDrillSpec {
    /// The stack, in the namespace of the drill. It must allow drills with `drills.enabled`.
    pub stack_ref: DrilledStackRef,
    pub store: DrilledStore,
    /// Time in seconds for which the store is away.
    #[serde(default = "default_seconds")]
    #[schemars(range(min = 10, max = LONGEST_DRILL))]
    pub seconds: i32,
}

/// A stack in the namespace of the drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrilledStackRef {
    /// Name of the stack.
    #[schemars(length(min = 1, max = 40), regex(pattern = names::NAMESPACE))]
    pub name: String,
}

/// A store of a stack. The operator takes away only what it runs itself: it scales the server to zero, or lets
/// CloudNativePG hibernate its Cluster. The volumes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DrilledStore {
    /// The cache of links.
    Cache,
    /// The broker of jobs.
    Queue,
    /// The database.
    Database,
    /// The vector store.
    Vector,
    /// The stack's own backend of traces, logs and metrics.
    Telemetry,
}

/// State of a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DrillPhase {
    /// The store is away until `endTime`.
    Active,
    /// The store is given back, and requests are still sent.
    Recovering,
    /// The drill is over.
    Complete,
    /// The drill was refused, and nothing was taken away.
    Refused,
}

/// Result of a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DrillVerdict {
    /// Users saw what the documentation promises.
    Held,
    /// Users saw something worse.
    Broken,
    /// Nothing is known: no requests were sent for a part of the time, they were limited, or the store was never away.
    Inconclusive,
}

/// A kind of request that is sent through the gateway during a drill.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DrillRequest {
    /// A redirect of a link that the cache has, if there is one.
    CachedRedirect,
    /// A code that was never given out, so that the app asks the database.
    UncachedCode,
    /// A new link.
    Create,
    /// A new job.
    Job,
}

/// What the documentation promises for a kind of request while a store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DrillPromise {
    /// It is served.
    Served,
    /// It is answered with 503.
    Unavailable,
}

/// The observed state of a drill, written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
// Until the operator has seen a drill, `kubectl` and GitOps tools read a generation that no drill has, and wait.
#[schemars(extend("default" = {"observedGeneration": -1}))]
#[serde(rename_all = "camelCase")]
pub struct ShortenerDrillStatus {
    /// The `metadata.generation` that this status describes; -1 until the operator has seen the drill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the drill, one entry per type: `Complete`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<Condition>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<DrillPhase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<DrillVerdict>,
    /// Time from which the store is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Time at which the store is given back, whatever happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Time at which the last request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Time until which the report below counts, at most ten seconds ago while the drill runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_until: Option<Time>,
    /// Seconds in which no requests were sent, because the operator was replaced.
    #[serde(default)]
    pub unobserved_seconds: i64,
    /// Code of the link whose redirects are tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Requests that were sent, by kind, and their answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["request".into()]))]
    pub requests: Vec<RequestReport>,
    /// Jobs that were accepted, if jobs were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobReport>,
}

/// The requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestReport {
    /// The kind.
    pub request: DrillRequest,
    /// The promise of the documentation for it.
    pub promise: DrillPromise,
    /// True while the promise is kept.
    pub kept: bool,
    /// Number of requests that were answered or got no answer in time.
    pub sent: i64,
    /// Number of those that were served.
    pub served: i64,
    /// Numbers of answers by HTTP status, `NoAnswer` for none in time and `WrongContent` for one of something else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, i64>,
    /// Longest time in milliseconds from a request that was not served to the next one that was.
    pub longest_gap_milliseconds: i64,
    /// Milliseconds from the end of the drill to the first request after which all were served. If unset, there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_milliseconds: Option<i64>,
}

/// The jobs that were accepted with 202.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobReport {
    /// Number of jobs that were accepted.
    pub accepted: i64,
    /// Number of those that workers have done.
    pub done: i64,
    /// Number of those that failed, are unknown to the stack, or were not done when the drill was complete.
    pub lost: i64,
    /// Number of those that workers started more than once. Each takes effect once.
    pub repeated: i64,
    /// Number of those of which nothing is known, because the operator was replaced.
    pub unknown: i64,
}

fn default_seconds() -> i32 {
    60
}

#[cfg(test)]
mod tests {
    use kube_cel::Validator;
    use kube_core::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    fn drill(spec: Value) -> Value {
        json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortenerDrill",
            "metadata": {"name": "cache-away", "namespace": "links"},
            "spec": spec,
        })
    }

    fn schema() -> Value {
        let definition = json!(ShortenerDrill::crd());
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    #[test]
    fn a_drill_never_changes() {
        let first = json!({"stackRef": {"name": "acme"}, "store": "Cache", "seconds": 60});
        for (field, value) in [
            ("stackRef", json!({"name": "other"})),
            ("store", json!("Queue")),
            ("seconds", json!(600)),
        ] {
            let mut other = first.clone();
            other[field] = value;
            let (old, new) = (drill(first.clone()), drill(other));
            let refusal = Validator::new().validate(&schema(), &new, Some(&old));
            let refusal = format!("{:?}", refusal.unwrap_err());
            assert!(refusal.contains("spec cannot change"), "{refusal}");
            assert!(Validator::new().validate(&schema(), &new, None).is_ok());
        }
    }

    #[test]
    fn the_time_is_bounded_and_has_a_default() {
        let seconds = &schema()["properties"]["spec"]["properties"]["seconds"];
        assert_eq!(seconds["minimum"].as_f64(), Some(10.0));
        assert_eq!(seconds["maximum"].as_f64(), Some(600.0));
        assert_eq!(seconds["default"], 60);
        let spec = json!({"stackRef": {"name": "acme"}, "store": "Database"});
        let read: ShortenerDrill = serde_json::from_value(drill(spec)).unwrap();
        assert_eq!(
            (read.spec.store, read.spec.seconds),
            (DrilledStore::Database, 60)
        );
    }

    #[test]
    fn drills_are_no_part_of_the_category_all() {
        let names = ShortenerDrill::crd().spec.names;
        assert_eq!(names.categories.unwrap_or_default(), Vec::<String>::new());
    }
}
