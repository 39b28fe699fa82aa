//! What a change of an object does to the pods that run because of it. The kinds differ only in their line of a table.

use serde_json::Value;

use crate::model::{
    cloud_native_pg::{self, HIBERNATION},
    drift::FieldChange,
    rabbitmq_cluster,
};

/// A kind whose objects run pods, or bound the number of those of others.
struct Runs {
    kind: &'static str,
    /// Field with the number of pods that run.
    running: &'static str,
    /// Field that sets their number, or a bound of it.
    number: &'static str,
    /// Annotation that leaves no pod while it is `on`.
    stop: Option<&'static str>,
    /// Fields whose changes restart the pods; none if the object has no pods itself.
    restarting: &'static [&'static str],
    /// Fields among them whose changes restart none.
    quiet: &'static [&'static str],
}

/// What most kinds have in common: a template of their pods.
const TEMPLATED: Runs = Runs {
    kind: "Deployment",
    running: "spec.replicas",
    number: "spec.replicas",
    stop: None,
    restarting: &["spec.template"],
    quiet: &[],
};

/// The kinds. Other operators make the pods of theirs from the whole spec, so everything counts that is not known to leave
/// them alone. Whether a setting of PostgreSQL is only reloaded depends on the setting.
static KINDS: [Runs; 6] = [
    TEMPLATED,
    Runs {
        kind: "StatefulSet",
        ..TEMPLATED
    },
    Runs {
        kind: "Pooler",
        running: "spec.instances",
        number: "spec.instances",
        ..TEMPLATED
    },
    Runs {
        kind: cloud_native_pg::RUNNER.kind,
        running: "spec.instances",
        number: "spec.instances",
        stop: Some(HIBERNATION),
        restarting: &["spec"],
        quiet: &[
            "spec.bootstrap",
            "spec.certificates",
            "spec.enablePDB",
            "spec.externalClusters",
            "spec.failoverDelay",
            "spec.instances",
            "spec.maxSyncReplicas",
            "spec.minSyncReplicas",
            "spec.nodeMaintenanceWindow",
            "spec.postgresql.synchronous",
            "spec.primaryUpdateMethod",
            "spec.primaryUpdateStrategy",
            "spec.smartShutdownTimeout",
            "spec.storage",
            "spec.switchoverDelay",
            "spec.walStorage.size",
        ],
    },
    Runs {
        kind: rabbitmq_cluster::RUNNER.kind,
        restarting: &["spec"],
        quiet: &[
            "spec.autoEnableAllFeatureFlags",
            "spec.persistence",
            "spec.rabbitmq.additionalPlugins",
            "spec.replicas",
            "spec.service",
            "spec.skipPostDeploySteps",
        ],
        ..TEMPLATED
    },
    // The Deployment leaves the number of its pods to it.
    Runs {
        kind: "HorizontalPodAutoscaler",
        running: "status.currentReplicas",
        number: "spec.maxReplicas",
        restarting: &[],
        ..TEMPLATED
    },
];

/// What happens to the pods of an object.
pub(super) struct Fate<'a> {
    /// Number of pods that run now.
    pub(super) pods: i64,
    /// Why all or some of them end, as a sentence.
    pub(super) end: Option<String>,
    /// Paths of the changes that restart those that are left.
    pub(super) restarting: Vec<&'a str>,
}

/// Returns what happens to the pods of an object of a kind that is now `before`; `None` if nothing does. Without changes it is
/// deleted.
pub(super) fn fate<'a>(
    kind: &str,
    before: &Value,
    changes: Option<&'a [FieldChange]>,
) -> Option<Fate<'a>> {
    let runs = KINDS.iter().find(|runs| runs.kind == kind)?;
    let pods = runs.pods(before);
    if pods == 0 {
        return None;
    }
    let Some(changes) = changes else {
        // The pods of an autoscaler belong to another object.
        return (!runs.restarting.is_empty()).then(|| Fate {
            pods,
            end: Some("it is deleted, so the pods end".to_owned()),
            restarting: Vec::new(),
        });
    };
    let paths = changes.iter().map(|change| change.path.as_str());
    let (left, end) = runs.end(pods, changes).unzip();
    let restarting: Vec<&str> = match left {
        Some(0) => Vec::new(),
        _ => paths.filter(|path| runs.restarts(path)).collect(),
    };
    (end.is_some() || !restarting.is_empty()).then_some(Fate {
        pods,
        end,
        restarting,
    })
}

impl Runs {
    /// Returns the number of pods that an object runs.
    fn pods(&self, object: &Value) -> i64 {
        let annotations = &object["metadata"]["annotations"];
        if self.stop.is_some_and(|stop| annotations[stop] == "on") {
            return 0;
        }
        let running = format!("/{}", self.running.replace('.', "/"));
        // The API server's default.
        object
            .pointer(&running)
            .and_then(Value::as_i64)
            .unwrap_or(1)
    }

    /// Returns the number of pods that the changes leave if it is smaller, and the sentence about those that end.
    fn end(&self, pods: i64, changes: &[FieldChange]) -> Option<(i64, String)> {
        let fewest = changes
            .iter()
            .map(|change| (self.left(pods, change), change))
            .min_by_key(|(left, _)| *left);
        let (
            left,
            FieldChange {
                path,
                before,
                after,
            },
        ) = fewest.filter(|(left, _)| *left < pods)?;
        let after = text(after.as_ref());
        let sentence = match (left, pods - left) {
            (0, _) => format!("{path} becomes {after}, so the pods end"),
            (_, 1) => format!("{path} {} -> {after}: 1 pod ends", text(before.as_ref())),
            (_, ended) => format!(
                "{path} {} -> {after}: {ended} pods end",
                text(before.as_ref())
            ),
        };
        Some((left, sentence))
    }

    /// Returns the number of pods that a change leaves.
    fn left(&self, pods: i64, change: &FieldChange) -> i64 {
        let after = change.after.as_ref();
        if change.path == self.number {
            return after.and_then(Value::as_i64).unwrap_or(1).min(pods);
        }
        let stops = self
            .stop
            .is_some_and(|stop| change.path == format!("metadata.annotations[{stop}]"));
        match after.and_then(Value::as_str) {
            Some("on") if stops => 0,
            _ => pods,
        }
    }

    fn restarts(&self, path: &str) -> bool {
        let is_in = |fields: &[&str]| fields.iter().any(|field| is_below(path, field));
        is_in(self.restarting) && !is_in(self.quiet)
    }
}

/// Returns true for the path of a field, or of something in it.
fn is_below(path: &str, field: &str) -> bool {
    let rest = path.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::kinds::kinds;

    /// Kinds of children whose changes end no pod. Those of a CronJob end by themselves.
    const WITHOUT_PODS: [&str; 13] = [
        "ConfigMap",
        "CronJob",
        "HTTPRoute",
        "Ingress",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "PrometheusRule",
        "ReferenceGrant",
        "Secret",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
    ];

    #[test]
    fn it_is_known_of_every_kind_of_child_what_its_changes_do_to_pods() {
        let with_pods = KINDS.iter().map(|runs| runs.kind);
        let known: BTreeSet<String> = with_pods.chain(WITHOUT_PODS).map(str::to_owned).collect();
        let children: BTreeSet<String> =
            kinds().into_iter().map(|kind| kind.resource.kind).collect();
        assert_eq!(children, known);
    }
}
