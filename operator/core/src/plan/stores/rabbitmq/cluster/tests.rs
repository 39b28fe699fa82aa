use std::sync::Arc;

use super::*;
use crate::{
    model::{
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        failure::StepFailure,
        live::Live,
        store_state::StoreFault,
    },
    plan::{stores::clients, validate::validate},
    testing::{
        golden,
        shared::stored_stack,
        stack::{defaults, facts, minimal_stack},
    },
};

/// Returns the spec that a stack with these settings renders.
fn rendered(settings: Value) -> Value {
    let stack = minimal_stack().rabbitmq_cluster(settings);
    serde_json::to_value(build(&stack).unwrap().spec).unwrap()
}

/// Returns the RabbitmqCluster that a stack with this spec asks for beside a live one.
fn asked(spec: Value, live: Option<LiveBroker>) -> Option<BrokerCluster> {
    let fact = BrokerFact {
        state: ClusterFact::Started,
        live,
    };
    wanted(&stored_stack(spec), &fact, false, &defaults()).unwrap()
}

fn live(members: i64) -> LiveBroker {
    LiveBroker {
        members,
        restarts_with: None,
        image: Some("registry.test/rabbitmq:4.3".to_owned()),
    }
}

#[test]
fn a_broker_of_three_members() {
    let stack = minimal_stack().rabbitmq_cluster(json!({"storageClassName": "fast"}));
    golden("rabbitmq-cluster", &build(&stack).unwrap());
}

#[test]
fn the_template_is_merged_over_the_spec_and_its_configuration_follows() {
    let mut stack = minimal_stack().rabbitmq_cluster(json!({}));
    let template = json!({
        "image": "own:1",
        "affinity": null,
        "rabbitmq": {"additionalConfig": "channel_max = 7\n", "additionalPlugins": ["x"]},
    });
    let wanted = stack.broker_cluster.as_mut().unwrap();
    wanted.servers.template = template.as_object().unwrap().clone();
    let fields = build(&stack).unwrap().spec.fields;
    assert_eq!(fields["image"], "own:1");
    assert!(!fields.contains_key("affinity"), "{fields:?}");
    assert_eq!(fields["rabbitmq"]["additionalPlugins"], json!(["x"]));
    let config = fields["rabbitmq"]["additionalConfig"].as_str().unwrap();
    let own = config_map::of_members(3);
    assert_eq!(config, format!("{own}channel_max = 7\n"));
}

#[test]
fn the_queues_get_a_copy_on_every_member() {
    for (settings, size) in [(json!({}), 3), (json!({"replicas": 5}), 5)] {
        let rendered = rendered(settings);
        let config = rendered["rabbitmq"]["additionalConfig"].as_str().unwrap();
        let line = format!(
            "quorum_queue.continuous_membership_reconciliation.target_group_size = {size}\n"
        );
        assert!(config.contains(&line), "{config}");
        assert!(!config.contains('%'), "{config}");
        assert_eq!(rendered["replicas"], size);
    }
}

#[test]
fn a_template_refers_to_nothing_else_and_hides_no_secret() {
    let refused = |template: Value, restricted| {
        let found = TEMPLATE.check(template.as_object().unwrap(), restricted);
        found.map_err(|error| error.to_string()).err()
    };
    let plain = json!({
        "image": "x", "resources": {}, "affinity": {"nodeAffinity": {}},
        "persistence": {"storage": "2Gi", "storageClassName": "fast"},
    });
    assert_eq!(refused(plain, true), None);
    for template in [
        json!({"override": {"statefulSet": {}}}),
        json!({"rabbitmq": {"additionalConfig": "x = y"}}),
        json!({"imagePullSecrets": [{"name": "x"}]}),
        json!({"service": {"type": "LoadBalancer"}}),
        json!({"persistence": {"fieldOfALaterVersion": {}}}),
    ] {
        assert!(refused(template.clone(), true).is_some(), "{template}");
        assert_eq!(refused(template, false), None);
    }
    for (template, path) in [
        (json!({"replicas": 5}), "replicas stands beside"),
        (json!({"tls": {"secretName": "x"}}), "tls is not supported"),
        (json!({"secretBackend": {}}), "secretBackend would keep"),
        (
            json!({"override": {"statefulSet": {"spec": {"replicas": 1}}}}),
            "override.statefulSet.spec.replicas stands beside",
        ),
    ] {
        let message = refused(template, false).unwrap();
        let named = format!("queue.rabbitmqCluster.template: {path}");
        assert!(message.starts_with(&named), "{message}");
    }
}

#[test]
fn a_stack_that_stops_has_no_members_and_starts_with_as_many_as_before() {
    let queue = |stopped: bool| {
        json!({
            "profiles": ["queue"], "stopped": stopped,
            "queue": {"rabbitmqCluster": {"replicas": 5}},
        })
    };
    let running = |spec, live| asked(spec, Some(live)).unwrap().running;
    assert_eq!(running(queue(false), live(3)), 5);
    assert_eq!(running(queue(true), live(3)), 0);
    // RabbitMQ's operator refuses to start it with another number.
    let resumes = LiveBroker {
        restarts_with: Some(3),
        ..live(0)
    };
    assert_eq!(running(queue(false), resumes), 3);
}

#[test]
fn a_queue_that_is_off_keeps_its_volumes_and_makes_none() {
    let off = json!({"queue": {"rabbitmqCluster": {}}});
    assert_eq!(asked(off.clone(), None), None);
    assert_eq!(asked(off, Some(live(3))).unwrap().running, 0);
}

#[test]
fn the_image_changes_by_steps_that_rabbitmq_allows_and_not_while_releases_wait() {
    let image = |policy: &str, image: &str| {
        let spec = json!({
            "profiles": ["queue"], "upgradePolicy": policy, "queue": {"rabbitmqCluster": {}},
        });
        let live = LiveBroker {
            image: Some(image.to_owned()),
            ..live(3)
        };
        asked(spec, Some(live)).unwrap().image
    };
    let default = defaults().images.rabbitmq;
    assert_eq!(image("Automatic", "rabbitmq:4.2.1"), default);
    for kept in ["rabbitmq:4.1.0", "rabbitmq:4.4.0", "rabbitmq@sha256:a"] {
        assert_eq!(image("Automatic", kept), kept);
    }
    assert_eq!(image("OnSpecChange", "rabbitmq:4.2.1"), "rabbitmq:4.2.1");
}

#[test]
fn the_programs_and_the_operator_use_the_default_user() {
    let stack = minimal_stack().rabbitmq_cluster(json!({}));
    let env = clients::env(&stack, Component::Worker);
    let keys: Vec<_> = env
        .iter()
        .filter(|variable| variable.name.starts_with("QUEUE_"))
        .map(|variable| {
            let source = variable.value_from.as_ref().unwrap();
            let key = source.secret_key_ref.as_ref().unwrap();
            assert_eq!(key.name, "acme-mq-default-user");
            key.key.as_str()
        })
        .collect();
    assert_eq!(keys, ["host", "port", USERNAME_KEY, PASSWORD_KEY]);
    let queue = stack.queue.as_ref().unwrap();
    let user = queue.operator_user().unwrap();
    assert_eq!(
        (user.name.as_ref(), user.password),
        ("shortener", &b"s3cret"[..])
    );
    // Definitions are for a broker that the operator runs.
    assert!(queue.users().is_none());
}

#[test]
fn the_queue_and_its_workers_wait_until_the_members_were_ready_once() {
    let spec = json!({"profiles": ["queue"], "queue": {"rabbitmqCluster": {}}});
    let held = |state: ClusterFact| -> Option<StepFailure> {
        let stack = stored_stack(spec.clone());
        let mut facts = facts(&stack.spec);
        facts.broker_cluster.state = state;
        let validated = validate(&stack, facts, &defaults()).unwrap();
        assert!(validated.broker_cluster.is_some());
        let held = validated.held.get(&Component::Worker).cloned();
        assert_eq!(held, validated.held.get(&Component::Rabbitmq).cloned());
        held
    };
    assert_eq!(held(ClusterFact::Started), None);
    let phase = "AllReplicasReady: 1/3 Pods ready".to_owned();
    let starting = held(ClusterFact::Starting(Some(phase))).unwrap();
    assert_eq!((starting.reason, starting.waits), ("ClusterStarting", true));
    let message = "RabbitmqCluster acme-mq of RabbitMQ's operator makes the broker: AllReplicasReady: 1/3 Pods ready";
    assert_eq!(starting.message, message);
    let missing = held(ClusterFact::Unserved).unwrap();
    assert_eq!(
        (missing.reason, missing.waits),
        ("ClusterKindMissing", false)
    );
    assert!(
        missing
            .message
            .contains("install RabbitMQ's cluster operator")
    );
}

fn judged(live: Value, fault: Option<StoreFault>) -> Verdict {
    let stack = minimal_stack().rabbitmq_cluster(json!({}));
    let live = Live {
        broker_cluster: Some(Arc::new(serde_json::from_value(live).unwrap())),
        store_faults: fault
            .map(|fault| (Component::Rabbitmq, fault))
            .into_iter()
            .collect(),
        ..Live::default()
    };
    let view = View {
        stack: &stack,
        live: &live,
    };
    verdict(view, stack.broker_cluster.as_ref().unwrap(), "slower")
}

fn cluster(replicas: i32, [reconciled, ready, available]: [&str; 3], reason: &str) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
    json!({
        "metadata": {"name": "acme-mq", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "conditions": [
            condition("ReconcileSuccess", reconciled, reason),
            condition("AllReplicasReady", ready, "NotAllPodsReady"),
            condition("ClusterAvailable", available, "NoEndpointsAvailable"),
        ]},
    })
}

#[test]
fn the_verdict_repeats_what_the_cluster_says() {
    for (live, reason, holds, serves, fault) in [
        (
            cluster(3, ["True"; 3], ""),
            "ClusterReady",
            true,
            true,
            false,
        ),
        // The number of members that RabbitMQ's operator takes first.
        (
            cluster(1, ["True"; 3], ""),
            "ClusterNotReady",
            false,
            true,
            false,
        ),
        (
            cluster(3, ["True", "False", "True"], ""),
            "ClusterNotReady",
            false,
            true,
            false,
        ),
        (
            cluster(3, ["True", "False", "False"], ""),
            "ClusterNotReady",
            false,
            false,
            false,
        ),
        (
            cluster(3, ["False", "True", "True"], "UnsupportedOperation"),
            "ClusterStuck",
            false,
            true,
            true,
        ),
        (
            json!({"metadata": {}, "spec": {}}),
            "ClusterNotReady",
            false,
            false,
            false,
        ),
    ] {
        let found = judged(live, None);
        assert_eq!(
            (found.reason, found.holds, found.serves, found.fault),
            (reason, holds, serves, fault),
            "{found:?}"
        );
    }
}

#[test]
fn what_the_programs_say_counts_once_every_member_is_ready() {
    let whole = || cluster(3, ["True"; 3], "");
    let lost = || cluster(3, ["True", "False", "True"], "");
    let refused = judged(whole(), Some(StoreFault::LoginRefused));
    assert_eq!(refused.reason, "LoginRefused");
    assert!(
        refused
            .message
            .starts_with("queue.rabbitmqCluster: the broker refuses")
    );
    let unreachable = Some(StoreFault::Unreachable);
    assert_eq!(judged(whole(), unreachable).reason, "Unreachable");
    assert_eq!(judged(lost(), unreachable).reason, "ClusterNotReady");
}
