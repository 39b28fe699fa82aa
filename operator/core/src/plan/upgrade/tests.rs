//! Tests of what is held back, and of what lets it go.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

use super::*;
use crate::{
    model::{
        metadata::{CONFIG_CHECKSUM, RECORD},
        pod_uses::HasPods,
    },
    plan::build::build,
    testing::stack::{every_profile, minimal_stack},
};

/// The checksum of a Secret.
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ROTATED: &str = "fedcba9876543210fedcba9876543210";
/// Components whose pods mount a ConfigMap.
const CONFIGURED: [Component; 5] = [
    Component::Gateway,
    Component::Cache,
    Component::Rabbitmq,
    Component::Otel,
    Component::Telemetry,
];

/// Returns pods of an image that use a Secret and a file of a ConfigMap.
fn pods(image: &str, secrets: &str, file: &str) -> RenderedPods {
    let checksum = format!("{secrets}.{}", crate::plan::objects::pod::digest(file));
    let template = json!({
        "metadata": {"annotations": {CONFIG_CHECKSUM: checksum}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    });
    RenderedPods {
        template: serde_json::from_value(template).unwrap(),
        config: [("file".to_owned(), file.to_owned())].into(),
    }
}

fn release(number: u8) -> Moment {
    Moment {
        release: number.to_string(),
        generation: Some(1),
        spec: "spec".to_owned(),
        asked: None,
        address: None,
    }
}

/// Returns the record of what the first release applied.
fn first() -> PodRecord {
    decide(pods("app:1", SECRET, "one"), None, &release(1)).0
}

/// Returns the record after the second release has looked.
fn held() -> PodRecord {
    let (held, fields) = decide(pods("app:2", SECRET, "two"), Some(&first()), &release(2));
    let expected = ["spec.containers[app].image", "ConfigMap.data[file]"];
    assert_eq!(fields, expected);
    assert_eq!((&held.pods, held.release.as_str()), (&first().pods, "1"));
    held
}

#[test]
fn a_template_and_its_configuration_wait_together_until_an_edit() {
    let new = || pods("app:2", SECRET, "two");
    let edited = |generation, spec: &str| Moment {
        generation: Some(generation),
        spec: spec.to_owned(),
        ..release(2)
    };
    let asked = |value: &str| Moment {
        asked: Some(value.to_owned()),
        ..release(2)
    };
    let table = [
        ("nothing", release(2), false),
        ("an edit", edited(2, "edited"), true),
        (
            "an edit that leaves the spec as it is",
            edited(2, "spec"),
            false,
        ),
        (
            "a release that writes the spec in another way",
            edited(1, "new"),
            false,
        ),
        ("a wish", asked("now"), true),
    ];
    // The first look of a release and all later ones decide alike.
    for record in [first(), held()] {
        for (what, now, released) in &table {
            let (after, fields) = decide(new(), Some(&record), now);
            let pods = if *released { new() } else { first().pods };
            assert_eq!((after.pods, fields.is_empty()), (pods, *released), "{what}");
        }
    }
    // A wish that was granted is none any more, and neither is one that was withdrawn.
    let granted = decide(new(), Some(&held()), &asked("now")).0;
    for wish in [Some("now".to_owned()), None] {
        let third = Moment {
            asked: wish,
            ..release(3)
        };
        let (after, _) = decide(pods("app:3", SECRET, "two"), Some(&granted), &third);
        assert_eq!(after.pods, new());
    }
}

#[test]
fn nothing_is_written_while_nothing_happens() {
    let new = || pods("app:2", SECRET, "two");
    assert_eq!(decide(new(), Some(&held()), &release(2)).0, held());
    let scaled = Moment {
        generation: Some(9),
        ..release(2)
    };
    assert_eq!(decide(new(), Some(&held()), &scaled).0, held());
    let old = || pods("app:1", SECRET, "one");
    assert_eq!(decide(old(), Some(&first()), &release(1)).0, first());
}

#[test]
fn a_rotated_secret_reaches_the_held_pods_once() {
    let rotated = || pods("app:2", ROTATED, "two");
    // During the change of the operator, and later.
    for record in [first(), held()] {
        let (after, fields) = decide(rotated(), Some(&record), &release(2));
        assert_eq!(after.pods, pods("app:1", ROTATED, "one"));
        assert_eq!(fields.len(), 2, "{fields:?}");
        let again = decide(rotated(), Some(&after), &release(2)).0;
        assert_eq!(again, after);
    }
}

#[test]
fn a_release_that_uses_more_secrets_restarts_nothing_and_follows_them() {
    let both = |other: &str| pods("app:2", &format!("{SECRET}.{other}"), "two");
    let (record, _) = decide(both(SECRET), Some(&first()), &release(2));
    assert_eq!(record.pods, first().pods);
    let (record, _) = decide(both(ROTATED), Some(&record), &release(2));
    let followed = pods("app:1", &format!("{SECRET}.{ROTATED}"), "one");
    assert_eq!(record.pods, followed);
    // The first Secret of a workload that had none.
    let bare = decide(pods("app:1", "", "one"), None, &release(1)).0;
    let (record, _) = decide(pods("app:2", SECRET, "one"), Some(&bare), &release(2));
    assert_eq!(record.pods, bare.pods);
}

#[test]
fn what_has_to_restart_anyway_restarts_as_the_new_release() {
    let moved = || pods("app:2", SECRET, "two, at another address");
    let (after, fields) = decide(moved(), Some(&held()), &release(2));
    assert_eq!((after.pods, fields), (moved(), Vec::new()));
}

#[test]
fn an_address_that_changed_with_the_release_is_followed_at_once() {
    let at = |number, address: &str| Moment {
        address: Some(address.to_owned()),
        ..release(number)
    };
    let file = |address: &str| format!("to {address}");
    let old = decide(
        pods("nginx:1", "", &file("10.0.0.7")),
        None,
        &at(1, "10.0.0.7"),
    )
    .0;
    let new = |address: &str| pods("nginx:2", "", &file(address));
    let held = decide(new("10.0.0.7"), Some(&old), &at(2, "10.0.0.7")).0;
    assert_eq!(held.pods, old.pods);
    let moved = decide(new("10.0.0.8"), Some(&old), &at(2, "10.0.0.8")).0;
    assert_eq!(moved.pods, new("10.0.0.8"));
    // Pods whose configuration does not have the address stay.
    let app = first();
    let held = decide(pods("app:2", SECRET, "one"), Some(&app), &at(2, "10.0.0.8")).0;
    assert_eq!(held.pods, app.pods);
}

#[test]
fn the_release_before_comes_back_without_a_restart() {
    let old = || pods("app:1", SECRET, "one");
    let (back, fields) = decide(old(), Some(&held()), &release(1));
    assert_eq!((back.pods, fields), (old(), Vec::new()));
    // What the second one was let to do stays.
    let new = pods("app:2", SECRET, "two");
    let released = decide(new.clone(), None, &release(2)).0;
    let (back, fields) = decide(old(), Some(&released), &release(1));
    assert_eq!((back.pods, fields.len()), (new, 2));
}

#[test]
fn pods_that_are_equal_belong_to_the_release_that_runs() {
    let same = pods("app:1", SECRET, "one");
    let (record, fields) = decide(same, Some(&first()), &release(2));
    assert_eq!((record.release.as_str(), fields), ("2", Vec::new()));
}

/// Returns the children of a stack, and their records once they were applied by a release.
fn applied(stack: &ValidatedStack, by: &Moment) -> (Children, BTreeMap<Component, PodRecord>) {
    let mut children = build(stack).children;
    assert_eq!(hold(&mut children, &BTreeMap::new(), stack, by), []);
    let sets = children.stateful_sets.iter().map(|set| &set.metadata);
    let workloads = sets
        .chain(children.deployments.iter().map(|one| &one.metadata))
        .chain(children.cron_jobs.iter().map(|one| &one.metadata));
    let records = workloads
        .map(|metadata| (component_of(metadata), PodRecord::of(metadata).unwrap()))
        .collect();
    (children, records)
}

/// Returns the children of a release in which every pod template and every configuration is another one.
fn of_a_release_that_changes_all(stack: &ValidatedStack) -> Children {
    let mut children = build(stack).children;
    let sets = children.stateful_sets.iter_mut();
    let sets = sets.map(|set| &mut set.spec.as_mut().unwrap().template);
    let deployments = children.deployments.iter_mut();
    let deployments = deployments.map(|one| &mut one.spec.as_mut().unwrap().template);
    let cron_jobs = children.cron_jobs.iter_mut();
    let cron_jobs = cron_jobs.map(|one| {
        let job = &mut one.spec.as_mut().unwrap().job_template;
        &mut job.spec.as_mut().unwrap().template
    });
    for template in sets.chain(deployments).chain(cron_jobs) {
        template.spec.as_mut().unwrap().host_network = Some(true);
    }
    for config_map in &mut children.config_maps {
        config_map.data = Some([("other".to_owned(), String::new())].into());
    }
    children
}

/// Returns the pod templates of the StatefulSets, then those of the Deployments and of the CronJob.
fn templates(children: &Children) -> Vec<PodTemplateSpec> {
    let sets = children.stateful_sets.iter();
    let sets = sets.map(|set| set.spec.clone().unwrap().template);
    let deployments = children.deployments.iter();
    let deployments = deployments.map(|one| one.spec.clone().unwrap().template);
    let cron_jobs = children.cron_jobs.iter();
    let cron_jobs = cron_jobs.map(|one| one.template().unwrap().clone());
    sets.chain(deployments).chain(cron_jobs).collect()
}

#[test]
fn every_workload_is_recorded_and_held_with_its_configuration() {
    let stack = every_profile().backed_up().webhooks();
    let (before, records) = applied(&stack, &release(1));
    // The comparison is there only while links move.
    assert_eq!(records.len(), Component::WITH_PODS.len() - 1);
    for component in CONFIGURED {
        assert!(!records[&component].pods.config.is_empty(), "{component:?}");
    }
    let mut after = of_a_release_that_changes_all(&stack);
    let mut new = after.clone();
    let pending = hold(&mut new, &records, &stack, &release(2));
    let named: Vec<&str> = pending
        .iter()
        .map(|change| change.workload.as_str())
        .collect();
    let expected = [
        "StatefulSet/acme-postgres",
        "StatefulSet/acme-cache",
        "StatefulSet/acme-rabbitmq",
        "StatefulSet/acme-telemetry",
        "StatefulSet/acme-qdrant",
        "Deployment/acme-otel",
        "Deployment/acme-app",
        "Deployment/acme-worker",
        "Deployment/acme-webhooks",
        "Deployment/acme-gateway",
        "CronJob/acme-purge",
        "CronJob/acme-backup",
        "CronJob/acme-verify",
    ];
    assert_eq!(named, expected);
    assert_eq!(templates(&new), templates(&before));
    for (held, old) in new.config_maps.iter().zip(&before.config_maps) {
        let is_mounted = records
            .values()
            .any(|record| Some(&record.pods.config) == old.data.as_ref());
        assert_eq!(held.data == old.data, is_mounted, "{:?}", old.metadata.name);
    }
    // The rest is that of the new release.
    new.deployments = Vec::new();
    after.deployments = Vec::new();
    new.stateful_sets = Vec::new();
    after.stateful_sets = Vec::new();
    new.cron_jobs = Vec::new();
    after.cron_jobs = Vec::new();
    new.config_maps = Vec::new();
    after.config_maps = Vec::new();
    assert_eq!(new, after);
}

#[test]
fn a_program_that_waits_for_a_part_keeps_its_recorded_template() {
    let mut stack = minimal_stack();
    let (before, records) = applied(&stack, &release(1));
    let app = |children: &Children| {
        let mut deployments = children.deployments.iter();
        deployments
            .find(|one| one.metadata.name.as_deref() == Some("acme-app"))
            .cloned()
            .unwrap()
    };
    let live: Value = json!({"metadata": {"labels": {"edited": "by hand"}}});
    stack
        .kept_templates
        .insert(Component::App, serde_json::from_value(live).unwrap());
    let mut children = build(&stack).children;
    let pending = hold(&mut children, &records, &stack, &release(2));
    assert_eq!(pending, []);
    assert_eq!(app(&children), app(&before));
    // Without a record, the live one is what is known, and no record is made of it.
    let mut children = build(&stack).children;
    hold(&mut children, &BTreeMap::new(), &stack, &release(2));
    let annotations = app(&children).metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(RECORD));
}

/// Returns the data of the ConfigMap of a component.
fn config(children: &Children, component: Component) -> BTreeMap<String, String> {
    let name = component_name("acme", component);
    let mut config_maps = children.config_maps.iter();
    let found = config_maps.find(|one| one.metadata.name.as_ref() == Some(&name));
    found.unwrap().data.clone().unwrap()
}

/// Returns the children that a release makes of a stack after another one has applied these records. The release changes
/// every template and every configuration, and it refuses the changes of the pods of a component.
fn refused(
    mut stack: ValidatedStack,
    component: Component,
    records: &BTreeMap<Component, PodRecord>,
    by: &Moment,
) -> Children {
    stack.refused_templates.insert(component);
    let mut children = of_a_release_that_changes_all(&stack);
    hold(&mut children, records, &stack, by);
    let sets = children.stateful_sets.iter().map(|set| &set.metadata);
    let mut workloads = sets.chain(children.deployments.iter().map(|one| &one.metadata));
    assert!(
        workloads.all(|metadata| component_of(metadata) != component),
        "{component:?}"
    );
    children
}

#[test]
fn pods_that_stay_because_their_changes_are_refused_keep_the_configuration_that_they_mount() {
    let stack = every_profile();
    let (before, records) = applied(&stack, &release(1));
    let edited = Moment {
        generation: Some(2),
        spec: "edited".to_owned(),
        ..release(2)
    };
    for component in CONFIGURED {
        let kept = config(&before, component);
        // Even an edit lets the pods go only once the changes are corrected.
        for now in [&release(2), &edited] {
            let children = refused(stack.clone(), component, &records, now);
            assert_eq!(config(&children, component), kept, "{component:?}");
        }
        // Without a record, nothing is known of them.
        let children = refused(stack.clone(), component, &BTreeMap::new(), &release(2));
        assert_ne!(config(&children, component), kept, "{component:?}");
    }
}

#[test]
fn pods_that_stay_because_their_changes_are_refused_keep_no_address_that_is_gone() {
    let stack = minimal_stack().standalone();
    let at = |number, address: &str| Moment {
        address: Some(address.to_owned()),
        ..release(number)
    };
    let (before, records) = applied(&stack, &at(1, "10.96.0.42"));
    let gateway = |now: &Moment| {
        let children = refused(stack.clone(), Component::Gateway, &records, now);
        config(&children, Component::Gateway)
    };
    let kept = config(&before, Component::Gateway);
    assert_eq!(gateway(&at(2, "10.96.0.42")), kept);
    assert_ne!(gateway(&at(2, "10.96.0.43")), kept);
}
