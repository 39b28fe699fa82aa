//! Tests of what is held while something cannot be read, is missing or is not admitted.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;

use super::*;
use crate::model::defaults::PodTemplatePolicy;

#[test]
fn what_could_not_be_read_is_held_with_the_answer() {
    let failure = StepFailure {
        reason: "Forbidden",
        message: "cannot read a Secret: no".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let facts = StoreFacts::Unread(failure.clone());
    assert_eq!(refused(json!({}), facts), failure);
    let backend = json!({"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "none"},
    }});
    let spec = json!({"profiles": ["observability"], "observability": {"backend": backend}});
    let stack = stored_stack(spec);
    let headers = HeaderFacts {
        secret: "none".to_owned(),
        data: Err(failure.clone()),
        usable: false,
    };
    let facts = Facts {
        headers: Some(headers),
        ..with_nothing(&stack)
    };
    assert!(facts.is_incomplete());
    let validated = validate(&stack, facts, &defaults()).unwrap();
    assert_eq!(validated.held.get(&Component::Otel), Some(&failure));
}

#[test]
fn a_key_of_the_probe_that_could_not_be_read_holds_nothing() {
    let failure = StepFailure {
        reason: "ReadFailed",
        message: "the answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let end_to_end = json!({"keySecretRef": {"name": "probe"}});
    let stack = stored_stack(json!({"gateway": {"endToEndProbe": end_to_end}}));
    let mut facts = with_nothing(&stack);
    facts.gateway.probe_key = Some(Err(failure.clone()));
    assert!(facts.is_incomplete());
    let validated = validate(&stack, facts, &defaults()).unwrap();
    assert_eq!(validated.held, BTreeMap::new());
    let settings = validated.gateway.end_to_end.unwrap();
    assert_eq!(settings.key, Some(Err(failure)));
}

#[test]
fn each_broken_part_is_held_with_its_dependents_and_no_other() {
    let missing = |field: &str| json!({field: {"external": {"secretRef": {"name": "none"}}}});
    let sized = |cache: &str| json!({"cache": {"managed": {"maxMemory": cache}}});
    let headers = json!({"observability": {"backend": {"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "none"},
    }}}});
    let own = json!({"links": {"rootTarget": "http://localhost:8080/"}});
    let annotation = json!({"gateway": {"annotations": {"a b": "x"}}});
    let table: [(Value, &str, &[Component]); 8] = [
        (
            missing("database"),
            "SecretNotFound",
            &[Component::Postgres],
        ),
        (missing("cache"), "SecretNotFound", &[Component::Cache]),
        (sized("lots"), "NotASize", &[Component::Cache]),
        (
            missing("queue"),
            "SecretNotFound",
            &[Component::Rabbitmq, Component::Worker],
        ),
        (missing("vector"), "SecretNotFound", &[Component::Qdrant]),
        (
            headers,
            "SecretNotFound",
            &[Component::Otel, Component::Telemetry],
        ),
        (own, "TargetIsOwn", &[Component::App]),
        (annotation, "NotAnAnnotation", &[Component::Gateway]),
    ];
    let profiles = ["caching", "queue", "observability", "vector"];
    for (mut spec, reason, components) in table {
        spec["profiles"] = json!(profiles);
        let stack = stored_stack(spec.clone());
        let validated = validate(&stack, with_nothing(&stack), &defaults()).unwrap();
        let held: Vec<Component> = validated.held.keys().copied().collect();
        assert_eq!(held, components, "{spec}");
        let mut reasons = validated.held.values().map(|failure| failure.reason);
        assert!(reasons.all(|found| found == reason), "{spec}");
        let on = validated.profiles().into_iter().map(Profile::as_str);
        assert_eq!(on.collect::<Vec<_>>(), profiles, "{spec}");
    }
}

#[test]
fn programs_keep_their_template_while_a_part_that_they_read_is_held() {
    let live: Deployment = serde_json::from_value(json!({
        "spec": {"selector": {}, "template": {"metadata": {"labels": {"live": "yes"}}}},
    }))
    .unwrap();
    let live = Arc::new(live);
    let external = json!({"external": {"secretRef": {"name": "none"}}});
    for (field, kept) in [
        ("cache", &[Component::App][..]),
        ("vector", &[Component::App, Component::Worker][..]),
        ("queue", &[Component::App, Component::Worker][..]),
        ("database", &[Component::App, Component::Worker][..]),
        ("", &[][..]),
    ] {
        let mut spec = json!({"profiles": ["caching", "queue", "vector"]});
        if !field.is_empty() {
            spec[field] = external.clone();
        }
        let stack = stored_stack(spec);
        let facts = Facts {
            programs: [Component::App, Component::Worker]
                .map(|program| (program, live.clone()))
                .into(),
            ..with_nothing(&stack)
        };
        let validated = validate(&stack, facts, &defaults()).unwrap();
        let found: Vec<Component> = validated.kept_templates.keys().copied().collect();
        assert_eq!(found, kept, "{field}");
    }
}

#[test]
fn headers_come_from_a_secret_with_its_label_unless_the_policy_admits_every_secret() {
    let backend = json!({"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "theirs"},
    }});
    let spec = json!({"profiles": ["observability"], "observability": {"backend": backend}});
    let stack = stored_stack(spec);
    for (policy, usable, reason) in [
        (
            PodTemplatePolicy::Restricted,
            false,
            Some("SecretNotUsable"),
        ),
        (PodTemplatePolicy::Restricted, true, None),
        (PodTemplatePolicy::Unrestricted, false, None),
    ] {
        let headers = HeaderFacts {
            secret: "theirs".to_owned(),
            data: Ok(Some(data(&[("authorization", "Bearer")]))),
            usable,
        };
        let facts = Facts {
            headers: Some(headers),
            ..with_nothing(&stack)
        };
        let defaults = Defaults {
            pod_template_policy: policy,
            ..defaults()
        };
        let validated = validate(&stack, facts, &defaults).unwrap();
        let held = validated.held.get(&Component::Otel);
        assert_eq!(held.map(|failure| failure.reason), reason, "{policy:?}");
    }
}

#[test]
fn a_database_begins_only_with_a_claim_that_stacks_may_use() {
    let from = json!({"claimName": "payroll"});
    let stack = stored_stack(json!({"database": {"restoreFrom": from}}));
    let unread = StepFailure {
        reason: "ReadFailed",
        message: "no answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    for (policy, usable, reason) in [
        (
            PodTemplatePolicy::Restricted,
            Ok(false),
            Some("ClaimNotUsable"),
        ),
        (PodTemplatePolicy::Restricted, Ok(true), None),
        (PodTemplatePolicy::Unrestricted, Ok(false), None),
        (
            PodTemplatePolicy::Unrestricted,
            Err(unread),
            Some("ReadFailed"),
        ),
    ] {
        let facts = Facts {
            restore_claim_usable: usable,
            ..with_database(&stack, managed(credentials()))
        };
        let defaults = Defaults {
            pod_template_policy: policy,
            ..defaults()
        };
        let validated = validate(&stack, facts, &defaults).unwrap();
        let held = validated.held.get(&Component::Postgres);
        assert_eq!(held.map(|failure| failure.reason), reason, "{policy:?}");
        // The app waits for the database and keeps its own pods.
        assert!(validated.database.is_some());
        let children = build::build(&validated).children;
        assert_eq!(children.stateful_sets.is_empty(), reason.is_some());
    }
}

#[test]
fn the_pods_of_a_secret_that_cannot_be_read_are_held_and_nothing_else_is() {
    let stack = stored_stack(json!({}));
    let failure = StepFailure {
        reason: "ReadFailed",
        message: "no answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let facts = Facts {
        contents: [(Component::Postgres, Err(failure.clone()))].into(),
        ..with_database(&stack, managed(credentials()))
    };
    assert!(facts.is_incomplete());
    let validated = validate(&stack, facts, &defaults()).unwrap();
    assert_eq!(validated.held, [(Component::Postgres, failure)].into());
    assert!(validated.database.is_some());
    let children = build::build(&validated).children;
    assert!(children.stateful_sets.is_empty());
    assert_eq!(children.deployments.len(), 2);
}
