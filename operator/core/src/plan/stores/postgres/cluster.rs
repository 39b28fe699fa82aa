//! The database that CloudNativePG runs: its Cluster, and the verdict on it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_core::ResourceExt;
use serde_json::{Map, Value, json};

use super::{DATABASE, connections, moving};
use crate::{
    api::{DEFAULT_STORAGE, ShortenerStack},
    model::{
        cloud_native_pg::{Cluster, ClusterSpec, HIBERNATION, READY, RUNNER, name, servers},
        defaults::Defaults,
        drill::DRILL,
        facts::ClusterFact,
        metadata::Component,
        pooler,
        stack::{MoveStep, StoreCluster, ValidatedStack},
    },
    plan::{
        error::ValidateError,
        objects::pod,
        stores::common::{self, Template, merged},
        verdict::{Verdict, View},
    },
};

/// Reason of a database whose servers are all ready.
pub(super) const CLUSTER_READY: &str = "ClusterReady";
/// Seconds for which a server that stops waits for its clients to leave.
const SMART_SHUTDOWN: i32 = 5;

/// Phases of a Cluster that a person has to end.
const STUCK: [&str; 6] = [
    "Cluster cannot",
    "Cluster has incomplete or invalid image catalog",
    "Cluster is unrecoverable",
    "Invalid cluster definition",
    "Not enough disk space",
    "Unable to create required cluster objects",
];

const TEMPLATE: Template = Template {
    field: RUNNER.field,
    admitted: &[
        "affinity.additionalPodAffinity",
        "affinity.additionalPodAntiAffinity",
        "affinity.enablePodAntiAffinity",
        "affinity.nodeAffinity",
        "affinity.nodeSelector",
        "affinity.podAntiAffinityType",
        "affinity.tolerations",
        "affinity.topologyKey",
        "bootstrap.initdb.dataChecksums",
        "bootstrap.initdb.database",
        "bootstrap.initdb.owner",
        "enablePDB",
        "failoverDelay",
        "imageName",
        "logLevel",
        "maxSyncReplicas",
        "minSyncReplicas",
        "nodeMaintenanceWindow",
        "postgresql.parameters",
        "postgresql.synchronous",
        "primaryUpdateMethod",
        "primaryUpdateStrategy",
        "resources",
        "smartShutdownTimeout",
        "startDelay",
        "stopDelay",
        // Other fields of a pvcTemplate bind or copy volumes of others.
        "storage.pvcTemplate.accessModes",
        "storage.pvcTemplate.resources",
        "storage.pvcTemplate.storageClassName",
        "storage.resizeInUseVolumes",
        "storage.size",
        "storage.storageClass",
        "switchoverDelay",
        "topologySpreadConstraints",
        "walStorage.pvcTemplate.accessModes",
        "walStorage.pvcTemplate.resources",
        "walStorage.pvcTemplate.storageClassName",
        "walStorage.resizeInUseVolumes",
        "walStorage.size",
        "walStorage.storageClass",
    ],
    never: &[
        (
            "instances",
            "stands beside the template: set database.cloudNativePG.instances",
        ),
        // CloudNativePG's version stands on the Secret that it makes itself.
        (
            "bootstrap.initdb.secret",
            "would keep CloudNativePG from making the Secret that the stack reads: remove it",
        ),
    ],
};

/// Returns the Cluster that a stack asks for, if it asks for one.
///
/// # Errors
/// The operator does not take a field of the template.
pub(in crate::plan) fn wanted(
    stack: &ShortenerStack,
    defaults: &Defaults,
) -> Result<Option<StoreCluster>, ValidateError> {
    let Some(wanted) = stack.spec.database.cloud_native_pg.as_deref() else {
        return Ok(None);
    };
    let template = wanted.template.clone().unwrap_or_default();
    TEMPLATE.check(&template, defaults.is_restricted())?;
    let storage = wanted.storage.as_deref().unwrap_or(DEFAULT_STORAGE);
    Ok(Some(StoreCluster {
        members: wanted.instances,
        storage: Quantity(storage.to_owned()),
        storage_class: wanted.storage_class_name.clone(),
        template,
    }))
}

/// Checks that the database has been made. Before, nothing else of the stack needs its Secrets.
///
/// # Errors
/// The cluster lacks the kind, or the database is still being made.
pub(super) fn check(stack: &ShortenerStack, fact: &ClusterFact) -> Result<(), ValidateError> {
    match stack.spec.database.cloud_native_pg {
        Some(_) => common::check_started(&RUNNER, name(&stack.name_any()), fact),
        None => Ok(()),
    }
}

/// Returns the Cluster of a stack. CloudNativePG fills in everything that is not here.
pub(in crate::plan) fn build(stack: &ValidatedStack) -> Option<Cluster> {
    let wanted = stack.cluster.as_ref()?;
    let moving = stack.database_move.as_ref();
    // An import before the last write would miss it.
    if moving.is_some_and(|moving| moving.step == MoveStep::Freezing) {
        return None;
    }
    let identity = &stack.identity;
    let mut metadata = stack.data_metadata(name(&identity.name), Component::Postgres);
    let drill = stack.drill_of(Component::Postgres);
    let hibernates = stack.stopped || drill.is_some();
    let hibernation = if hibernates { "on" } else { "off" };
    let annotations = metadata.annotations.get_or_insert_default();
    if let Some(drill) = drill {
        annotations.insert(DRILL.to_owned(), drill.name.clone());
    }
    annotations.insert(HIBERNATION.to_owned(), hibernation.to_owned());
    Some(Cluster {
        metadata,
        spec: ClusterSpec {
            fields: spec(stack, wanted),
        },
        status: None,
    })
}

fn spec(stack: &ValidatedStack, wanted: &StoreCluster) -> Map<String, Value> {
    let mut spec = json!({
        "instances": wanted.members,
        // A budget for one server would never let its node be drained.
        "enablePDB": wanted.members > 1,
        "storage": {"size": wanted.storage},
        "postgresql": {"parameters": {"max_connections": connections::MAX.to_string()}},
        // The programs keep their connections, so a server that waits for the end of them waits for nothing.
        "smartShutdownTimeout": SMART_SHUTDOWN,
        // By itself, CloudNativePG knows nodes and no zones.
        "topologySpreadConstraints": pod::spread_servers(&servers(&stack.identity.name)),
    });
    if let Some(synchronous) = synchronous(wanted.members) {
        spec["postgresql"]["synchronous"] = synchronous;
    }
    if let Some(class) = &wanted.storage_class {
        spec["storage"]["storageClass"] = json!(class);
    }
    // From the beginning, so that a pooler that comes later needs no other certificate. That of the user has its own names.
    if !has_own_certificate(&wanted.template) {
        spec["certificates"] = json!({"serverAltDNSNames": [pooler::name(&stack.identity.name)]});
    }
    // A Cluster begins in one way only.
    let imports = stack.database_move.is_some();
    if imports || !wanted.template.contains_key("bootstrap") {
        spec["bootstrap"] = json!({"initdb": {"database": DATABASE, "owner": DATABASE}});
    }
    let mut spec = merged(spec, wanted.template.clone());
    if imports {
        moving::add_import(&mut spec, stack);
    }
    spec
}

/// Returns true when a template names the certificate of the servers.
fn has_own_certificate(template: &Map<String, Value>) -> bool {
    let certificates = template.get("certificates");
    certificates.is_some_and(|certificates| certificates.get("serverTLSSecret").is_some())
}

/// Returns the settings of synchronous replication: with three servers, what was acknowledged is on two, and one may be
/// lost. With two, the loss of one must not end the writes of the other.
fn synchronous(instances: i32) -> Option<Value> {
    let durability = match instances {
        ..=1 => return None,
        2 => "preferred",
        3.. => "required",
    };
    Some(json!({
        "method": "any",
        "number": 1,
        "dataDurability": durability,
        "failoverQuorum": instances > 2,
    }))
}

/// Returns true when a phase of a Cluster is one that a person has to end.
pub(super) fn is_stuck(phase: &str) -> bool {
    STUCK.iter().any(|stuck| phase.starts_with(stuck))
}

/// Returns the verdict on a database that CloudNativePG runs: what the stack's programs say, then the Cluster's own.
pub(super) fn verdict(view: View<'_>, without: &str) -> Verdict {
    let cluster = name(&view.stack.identity.name);
    if view.stack.stopped {
        return Verdict::yes("Stopped", format!("Cluster {cluster} hibernates"));
    }
    let live = view.live.cluster.as_deref();
    let status = live.and_then(|live| live.status.as_ref());
    let conditions = status.map(|status| status.conditions.as_slice());
    let mut conditions = conditions.unwrap_or_default().iter();
    let is_ready = conditions.any(|found| found.type_ == READY && found.status == "True");
    let ready = status.map_or(0, |status| status.ready_instances);
    let asked = view.stack.cluster.as_ref();
    let needed = asked.map_or(1, |asked| needed(&spec(view.stack, asked)));
    // Programs that do not use it yet reach the servers.
    if let Some(problem) = super::pooler::problem(view).filter(|_| is_ready) {
        return Verdict::no("PoolerNotReady", problem).serving(ready >= needed);
    }
    if let Some(verdict) = common::of_cluster(view, Component::Postgres, &RUNNER, is_ready) {
        return verdict;
    }
    let wanted = asked.map_or(0, |asked| asked.members);
    let said = live.and_then(Cluster::phase).unwrap_or_default();
    let effect = match ready {
        1.. if ready < needed => format!("writes wait until {needed} are"),
        _ => without.to_owned(),
    };
    let message =
        format!("{ready} of {wanted} servers of Cluster {cluster} are ready ({said}); {effect}");
    let verdict = match is_ready && ready >= wanted {
        true => Verdict::yes(CLUSTER_READY, message),
        false if is_stuck(&said) => Verdict::fault("ClusterStuck", message),
        false => Verdict::no("ClusterNotReady", message),
    };
    verdict.serving(ready >= needed)
}

/// Returns the number of servers without which a Cluster of this spec acknowledges no write: the one that takes it, and those
/// that must have it too.
fn needed(spec: &Map<String, Value>) -> i32 {
    let postgresql = spec.get("postgresql");
    let synchronous = postgresql.and_then(|postgresql| postgresql.get("synchronous"));
    // CloudNativePG waits for them unless the spec says otherwise.
    let waits = synchronous.filter(|settings| settings["dataDurability"] != "preferred");
    let others = waits.and_then(|settings| settings["number"].as_i64());
    let others = others.and_then(|others| i32::try_from(others).ok());
    others.unwrap_or(0).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{model::live::Live, testing::stack::minimal_stack};

    fn rendered(cluster: Value) -> Value {
        let stack = minimal_stack().cloud_native_pg(cluster);
        serde_json::to_value(build(&stack).unwrap().spec).unwrap()
    }

    #[test]
    fn the_template_is_merged_over_the_spec() {
        let plain = rendered(json!({"storageClassName": "fast"}));
        let storage = json!({"size": DEFAULT_STORAGE, "storageClass": "fast"});
        assert_eq!(plain["storage"], storage);
        assert_eq!(plain["bootstrap"]["initdb"]["database"], DATABASE);
        let mut cluster = minimal_stack().cloud_native_pg(json!({})).cluster.unwrap();
        let template = json!({
            "bootstrap": {"recovery": {"source": "old"}},
            "postgresql": {"parameters": {"work_mem": "8MB"}, "synchronous": null},
            "smartShutdownTimeout": null,
        });
        cluster.template = template.as_object().unwrap().clone();
        let changed = spec(&minimal_stack(), &cluster);
        assert_eq!(changed["bootstrap"], json!({"recovery": {"source": "old"}}));
        let parameters = json!({"max_connections": "200", "work_mem": "8MB"});
        assert_eq!(changed["postgresql"], json!({"parameters": parameters}));
        assert!(!changed.contains_key("smartShutdownTimeout"), "{changed:?}");
    }

    #[test]
    fn the_servers_are_spread_over_zones_and_nodes_unless_the_template_says_otherwise() {
        let spread = &rendered(json!({}))["topologySpreadConstraints"];
        let over = |key: &str| {
            json!({
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {
                    "cnpg.io/cluster": "acme-pg", "cnpg.io/podRole": "instance",
                }},
            })
        };
        let zone = over("topology.kubernetes.io/zone");
        assert_eq!(spread, &json!([zone, over("kubernetes.io/hostname")]));
        let mut cluster = minimal_stack().cloud_native_pg(json!({})).cluster.unwrap();
        for own in [json!([zone]), Value::Null] {
            let template = json!({"topologySpreadConstraints": own});
            cluster.template = template.as_object().unwrap().clone();
            let spec = spec(&minimal_stack(), &cluster);
            let found = spec.get("topologySpreadConstraints");
            assert_eq!(found.unwrap_or(&Value::Null), &own);
        }
    }

    #[test]
    fn the_certificate_has_the_name_of_a_pooler_before_there_is_one() {
        let names = |template: Value| {
            let mut cluster = minimal_stack().cloud_native_pg(json!({})).cluster.unwrap();
            cluster.template = template.as_object().unwrap().clone();
            spec(&minimal_stack(), &cluster)["certificates"]["serverAltDNSNames"].clone()
        };
        assert_eq!(names(json!({})), json!(["acme-pg-pooler"]));
        let own = json!({"certificates": {"serverCASecret": "ca", "serverTLSSecret": "tls"}});
        assert_eq!(names(own), Value::Null);
        let authority = json!({"certificates": {"serverCASecret": "ca"}});
        assert_eq!(names(authority), json!(["acme-pg-pooler"]));
    }

    #[test]
    fn what_was_acknowledged_outlives_a_server_if_there_are_three() {
        let settings = |instances: i32| {
            let rendered = rendered(json!({"instances": instances}));
            let synchronous = &rendered["postgresql"]["synchronous"];
            (
                synchronous["dataDurability"].clone(),
                synchronous["failoverQuorum"].clone(),
                rendered["enablePDB"].clone(),
            )
        };
        assert_eq!(settings(1), (Value::Null, Value::Null, json!(false)));
        assert_eq!(settings(2), (json!("preferred"), json!(false), json!(true)));
        assert_eq!(settings(3), (json!("required"), json!(true), json!(true)));
    }

    #[test]
    fn a_template_refers_to_nothing_else_and_hides_no_secret() {
        let refused = |template: Value, restricted| {
            let found = TEMPLATE.check(template.as_object().unwrap(), restricted);
            found.map_err(|error| error.to_string()).err()
        };
        let plain = json!({
            "imageName": "ghcr.io/cloudnative-pg/postgresql:18.1",
            "postgresql": {"parameters": {"shared_buffers": "1GB"}, "synchronous": {"number": 1}},
            "affinity": {"topologyKey": "topology.kubernetes.io/zone"},
            "resources": {"limits": {"memory": "4Gi"}},
            "storage": {"size": "8Gi", "pvcTemplate": {"accessModes": ["ReadWriteOncePod"]}},
            "walStorage": {"size": "2Gi", "storageClass": "fast", "resizeInUseVolumes": true},
        });
        assert_eq!(refused(plain, true), None);
        for template in [
            json!({"superuserSecret": {"name": "x"}}),
            json!({"postgresql": {"ldap": {}}}),
            json!({"inheritedMetadata": {"labels": {}}}),
            json!({"managed": {"services": {}}}),
            json!({"bootstrap": {"recovery": {}}}),
            json!({"storage": {"pvcTemplate": {"volumeName": "of-others"}}}),
            json!({"storage": {"pvcTemplate": {"dataSource": {"kind": "PersistentVolumeClaim"}}}}),
            json!({"walStorage": {"pvcTemplate": {"selector": {}}}}),
            json!({"walStorage": {"pvcTemplate": {"dataSourceRef": {}}}}),
        ] {
            assert!(refused(template.clone(), true).is_some(), "{template}");
            assert_eq!(refused(template, false), None);
        }
        let own = json!({"bootstrap": {"initdb": {"secret": {"name": "mine"}}}});
        assert!(
            refused(own, false)
                .unwrap()
                .contains("bootstrap.initdb.secret would keep")
        );
        let number = refused(json!({"instances": 5}), false).unwrap();
        assert!(
            number.ends_with("set database.cloudNativePG.instances"),
            "{number}"
        );
    }

    #[test]
    fn a_stopped_stack_hibernates_its_cluster_and_keeps_its_data() {
        for (stack, expected) in [(minimal_stack(), "off"), (minimal_stack().stopped(), "on")] {
            let cluster = build(&stack.cloud_native_pg(json!({}))).unwrap();
            let annotations = cluster.metadata.annotations.unwrap();
            assert_eq!(annotations[HIBERNATION], expected);
            assert_eq!(cluster.metadata.owner_references, None);
        }
    }

    #[test]
    fn a_cluster_needs_the_servers_that_acknowledge_a_write() {
        for (instances, changes, expected) in [
            (1, json!({}), 1),
            (2, json!({}), 1),
            (3, json!({}), 2),
            (5, json!({"number": 2}), 3),
            (3, json!({"dataDurability": "preferred"}), 1),
            (3, Value::Null, 1),
        ] {
            let settings = json!({"instances": instances});
            let mut cluster = minimal_stack().cloud_native_pg(settings).cluster.unwrap();
            let template = json!({"postgresql": {"synchronous": changes}});
            cluster.template = template.as_object().unwrap().clone();
            let found = needed(&spec(&minimal_stack(), &cluster));
            assert_eq!(found, expected, "{instances} {changes}");
        }
    }

    fn judged(status: Value) -> Verdict {
        let stack = minimal_stack().cloud_native_pg(json!({}));
        let cluster = serde_json::from_value(json!({
            "metadata": {"name": "acme-pg"}, "spec": {}, "status": status,
        }));
        let live = Live {
            cluster: Some(Arc::new(cluster.unwrap())),
            ..Live::default()
        };
        verdict(
            View {
                stack: &stack,
                live: &live,
            },
            "slower",
        )
    }

    #[test]
    fn what_cloudnativepg_says_against_the_pooler_counts_once_the_servers_are_ready() {
        let pooler = json!({
            "metadata": {"name": "acme-pg-pooler"}, "spec": {},
            "status": {"phase": "failed", "phaseReason": "no such image"},
        });
        let reason = |settings: Value, ready: &str| {
            let cluster = json!({
                "metadata": {"name": "acme-pg"}, "spec": {},
                "status": {"readyInstances": 3, "conditions": [{
                    "type": "Ready", "status": ready, "reason": "x", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            });
            let live = Live {
                cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
                pooler: Some(Arc::new(serde_json::from_value(pooler.clone()).unwrap())),
                ..Live::default()
            };
            let stack = &minimal_stack().cloud_native_pg(settings);
            verdict(View { stack, live: &live }, "slower")
        };
        let found = reason(json!({"pooler": {}}), "True");
        assert_eq!((found.reason, found.serves), ("PoolerNotReady", true));
        assert!(found.message.ends_with("no such image"), "{found:?}");
        assert_eq!(
            reason(json!({"pooler": {}}), "False").reason,
            "ClusterNotReady"
        );
        assert_eq!(reason(json!({}), "True").reason, CLUSTER_READY);
    }

    #[test]
    fn the_verdict_repeats_what_the_cluster_says() {
        let condition = |status: &str| {
            json!([{
                "type": "Ready", "status": status, "reason": "ClusterIsReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }])
        };
        let status = |ready: &str, servers: i32, phase: &str| json!({"readyInstances": servers, "phase": phase, "conditions": condition(ready)});
        for (status, reason, holds, serves, fault) in [
            (
                status("True", 3, "Cluster in healthy state"),
                "ClusterReady",
                true,
                true,
                false,
            ),
            (
                status("False", 2, "Failing over"),
                "ClusterNotReady",
                false,
                true,
                false,
            ),
            // What it takes has to be on another one too.
            (
                status("False", 1, "Failing over"),
                "ClusterNotReady",
                false,
                false,
                false,
            ),
            (
                status("False", 0, "Setting up primary"),
                "ClusterNotReady",
                false,
                false,
                false,
            ),
            (
                status("False", 2, "Not enough disk space"),
                "ClusterStuck",
                false,
                true,
                true,
            ),
            (json!({}), "ClusterNotReady", false, false, false),
        ] {
            let found = judged(status);
            assert_eq!(
                (found.reason, found.holds, found.serves, found.fault),
                (reason, holds, serves, fault),
                "{found:?}"
            );
        }
    }
}
