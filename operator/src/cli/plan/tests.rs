mod others;

use clap::{CommandFactory, Parser};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret, networking::v1::NetworkPolicy};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use shortener_operator_core::plan::diff::ChildName;

use super::*;
use crate::{
    cli::kubectl::{Plugin, PluginCommand},
    testing::{
        api_server::{FakeApiServer, Fault},
        settings,
        shared::stored_stack,
        world::{NAMESPACE, World},
    },
};

#[derive(Debug, Parser)]
struct PlanLine {
    #[command(flatten)]
    plan: PlanArguments,
}

/// Returns the stack `acme` as a file contains it.
fn in_a_file(spec: Value) -> ShortenerStack {
    let mut stack = stored_stack(spec);
    stack.metadata.uid = None;
    stack.metadata.creation_timestamp = None;
    stack
}

async fn planned(server: &FakeApiServer, spec: Value) -> PlanReport {
    let defaults = settings().defaults();
    compare::with_cluster(server.client(), in_a_file(spec), defaults)
        .await
        .unwrap()
}

fn names(children: &[ChildName]) -> Vec<String> {
    children.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn the_plan_of_a_stack_as_it_is_has_no_change_and_writes_nothing() {
    let spec = json!({"profiles": ["caching", "queue", "vector"]});
    let world = World::with_stack(spec.clone()).await;
    let report = planned(&world.server, spec).await;
    assert_eq!(report.outcome(), PlanOutcome::Unchanged, "{report:?}");
    assert!(report.exists);
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_plan_says_is_what_the_operator_then_does() {
    let world = World::with_stack(json!({})).await;
    let spec = json!({"profiles": ["caching"]});
    let report = planned(&world.server, spec.clone()).await;
    assert_eq!(world.server.writes(), []);
    assert_eq!(report.outcome(), PlanOutcome::Disturbed);
    let before = world.children();
    world.edit_spec("acme", |live| *live = spec);
    world.settle().await;
    let created = world.children().len() - before.len();
    assert_eq!(report.changes.created.len(), created);
    let restarted: Vec<String> = report
        .changes
        .restarts
        .iter()
        .map(|restart| restart.child.to_string())
        .collect();
    assert_eq!(restarted, ["Deployment/acme-app"]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_names_what_the_api_server_refuses_and_what_it_was_not_asked() {
    let world = World::with_stack(json!({})).await;
    let spec = json!({"app": {"image": "app:2"}});
    world
        .server
        .fail_kind::<Deployment>(Some(Fault::Refuse(422)));
    let report = planned(&world.server, spec.clone()).await;
    let blocked = &report.changes.blocked[0];
    assert_eq!(blocked.child.to_string(), "Deployment/acme-app");
    assert!(blocked.message.contains("this failure was asked for"));
    assert_eq!(report.changes.restarts, []);
    world
        .server
        .fail_kind::<Deployment>(Some(Fault::Refuse(500)));
    let report = planned(&world.server, spec).await;
    assert_eq!(report.changes.blocked, []);
    assert_eq!(report.changes.restarts.len(), 1);
    assert!(report.notes[0].contains("is unknown"), "{:?}", report.notes);
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_change_about_which_nothing_is_known_keeps_no_other_from_being_asked() {
    let world = World::with_stack(json!({})).await;
    let server = &world.server;
    server.fail_kind::<NetworkPolicy>(Some(Fault::Refuse(500)));
    server.fail_kind::<Deployment>(Some(Fault::Refuse(422)));
    let gateway = json!({"allowFrom": [{"podSelector": {}}]});
    let spec = json!({"app": {"image": "app:2"}, "gateway": gateway});
    let report = planned(server, spec).await;
    let blocked = report.changes.blocked.iter();
    let mut blocked = blocked.map(|blocked| blocked.child.kind.as_str());
    assert!(blocked.any(|kind| kind == "Deployment"), "{report:?}");
    let note = &report.notes[0];
    assert!(note.contains("NetworkPolicy/acme-"), "{note}");
    assert!(
        note.ends_with("is unknown: this failure was asked for"),
        "{note}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_needs_its_namespace_and_the_definition() {
    let server = FakeApiServer::default();
    let error = async |namespace: &str| {
        let mut stack = in_a_file(json!({}));
        stack.metadata.namespace = Some(namespace.to_owned());
        let report = compare::with_cluster(server.client(), stack, settings().defaults()).await;
        report.unwrap_err().to_string()
    };
    let text = error("absent").await;
    assert!(text.contains("namespace absent does not exist"), "{text}");
    server.fail_reads::<ShortenerStack>(Some(Fault::Refuse(404)));
    let text = error(NAMESPACE).await;
    assert!(
        text.contains("does not have the kind ShortenerStack"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_goes_is_planned_with_its_deletions() {
    let world = World::with_stack(json!({"profiles": ["caching"]})).await;
    let report = planned(&world.server, json!({})).await;
    let deleted = names(&report.changes.deleted);
    assert!(
        deleted.contains(&"StatefulSet/acme-cache".to_owned()),
        "{deleted:?}"
    );
    assert!(
        !deleted.contains(&"Secret/acme-cache".to_owned()),
        "{deleted:?}"
    );
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_is_planned_on_a_cluster_that_stays_empty() {
    let server = FakeApiServer::default();
    let report = planned(&server, json!({"gateway": {"provider": "Standalone"}})).await;
    assert!(!report.exists);
    assert_eq!(report.outcome(), PlanOutcome::Changed);
    let created = names(&report.changes.created);
    assert!(
        created.contains(&"Deployment/acme-gateway".to_owned()),
        "{created:?}"
    );
    assert_eq!(server.writes(), []);
    assert_eq!(server.names(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_owner_is_in_the_way() {
    let server = FakeApiServer::default();
    let other: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "acme-app", "namespace": NAMESPACE},
        "spec": {"selector": {}, "template": {}},
    }))
    .unwrap();
    server.create(&other);
    let report = planned(&server, json!({})).await;
    assert_eq!(report.outcome(), PlanOutcome::Blocked);
    assert_eq!(
        report.changes.blocked[0].child.to_string(),
        "Deployment/acme-app"
    );
}

#[tokio::test(start_paused = true)]
async fn a_component_that_would_be_held_is_told_beside_the_rest_of_the_plan() {
    let external = json!({"external": {"secretRef": {"name": "missing"}}});
    let spec = json!({"profiles": ["caching"], "cache": external});
    let report = planned(&FakeApiServer::default(), spec).await;
    assert_eq!(report.outcome(), PlanOutcome::Blocked);
    let [held] = report.held.as_slice() else {
        panic!("{:?}", report.held);
    };
    assert_eq!(
        (held.component, held.reason),
        ("cache", "SecretNotFound"),
        "{held:?}"
    );
    let created = names(&report.changes.created);
    assert!(
        created.contains(&"Deployment/acme-app".to_owned()),
        "{created:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_an_edit_is_noted_and_an_edit_lets_it_go() {
    let spec = json!({"upgradePolicy": "OnSpecChange"});
    let world = World::with_stack(spec.clone()).await;
    let mut next = settings();
    next.images.app = "registry.test/app:next".to_owned();
    let plan = async |spec: Value| {
        let stack = in_a_file(spec);
        let report = compare::with_cluster(world.server.client(), stack, next.defaults()).await;
        report.unwrap()
    };
    let waiting = plan(spec).await;
    assert_eq!(waiting.outcome(), PlanOutcome::Unchanged, "{waiting:?}");
    assert!(
        waiting.notes[0].contains("Deployment/acme-app"),
        "{waiting:?}"
    );
    let spec = json!({"upgradePolicy": "OnSpecChange", "rateLimits": {"shortenPerMinute": 61}});
    let edited = plan(spec).await;
    assert_eq!(edited.notes, [] as [String; 0]);
    let restarts = edited.changes.restarts.iter();
    let restarts: Vec<String> = restarts.map(|restart| restart.child.to_string()).collect();
    assert!(restarts.contains(&"Deployment/acme-app".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_gateway_is_held_while_another_stack_serves_the_host() {
    let world = World::with_stack(json!({})).await;
    let mut other = in_a_file(json!({}));
    other.metadata.name = Some("other".to_owned());
    let defaults = settings().defaults();
    let report = compare::with_cluster(world.server.client(), other, defaults).await;
    let report = report.unwrap();
    assert_eq!(report.outcome(), PlanOutcome::Blocked);
    let [held] = report.held.as_slice() else {
        panic!("{:?}", report.held);
    };
    assert_eq!((held.component, held.reason), ("gateway", "HostConflict"));
    let holder = "stack links/acme already serves every host";
    assert!(held.message.starts_with(holder), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_belongs_to_the_stack_that_serves_it_also_in_another_namespace() {
    let gateway = |host: &str| json!({"gateway": {"hosts": [host]}});
    let world = World::with_stack(gateway("go.example.com")).await;
    let of_team = |mut stack: ShortenerStack| {
        stack.metadata.namespace = Some("team".to_owned());
        stack
    };
    let older = of_team(stored_stack(gateway("old.example.com")));
    let long_ago = "2020-01-01T00:00:00Z".parse().unwrap();
    world.server.create_at(&older, long_ago);
    world.settle().await;
    let edited = of_team(in_a_file(gateway("go.example.com")));
    let defaults = settings().defaults();
    let report = compare::with_cluster(world.server.client(), edited, defaults).await;
    let report = report.unwrap();
    assert_eq!(report.outcome(), PlanOutcome::Blocked, "{report:?}");
    let holder = "stack links/acme already serves go.example.com";
    assert!(report.held[0].message.starts_with(holder), "{report:?}");
    assert_eq!(report.notes, [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_credential_is_printed_in_either_format() {
    let spec = json!({"profiles": ["caching", "queue", "vector"]});
    let world = World::with_stack(spec).await;
    // A password that was changed by hand also changes what is rendered from it.
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-rabbitmq", |secret| {
            secret["data"]["definitions.json"] = json!("b2xkLXMzY3JldA==");
        });
    let report = planned(&world.server, json!({"profiles": ["observability"]})).await;
    let mut printed = Vec::new();
    text::print(&report, &mut printed).unwrap();
    printed.extend(serde_json::to_vec(&report).unwrap());
    let printed = String::from_utf8(printed).unwrap();
    let secrets: kube::Api<Secret> = kube::Api::namespaced(world.server.client(), NAMESPACE);
    let secrets = secrets.list(&ListParams::default()).await.unwrap();
    let mut searched = 0;
    for secret in secrets {
        let values = serde_json::to_value(secret.data.clone()).unwrap();
        for (key, value) in secret.data.clone().unwrap_or_default() {
            if key.ends_with("username") {
                continue;
            }
            let (plain, encoded) = (String::from_utf8(value.0).unwrap(), values[&key].as_str());
            let name = secret.name_any();
            assert!(!printed.contains(&plain), "{name} {key}");
            assert!(!printed.contains(encoded.unwrap()), "{name} {key}");
            searched += 1;
        }
    }
    assert!(searched >= 6, "{searched}");
}

#[test]
fn without_a_cluster_everything_is_new() {
    let spec = json!({"database": {"external": {"secretRef": {"name": "links-database"}}}});
    let report = compare::with_nothing(in_a_file(spec), &settings().defaults()).unwrap();
    assert_eq!(report.outcome(), PlanOutcome::Changed);
    let created = names(&report.changes.created);
    assert!(
        created.contains(&"Deployment/acme-app".to_owned()),
        "{created:?}"
    );
    assert!(report.notes[0].contains("empty cluster"));
    let again =
        in_a_file(json!({"database": {"external": {"secretRef": {"name": "links-database"}}}}));
    let again = compare::with_nothing(again, &settings().defaults()).unwrap();
    assert_eq!(again, report);
}

#[test]
fn the_namespace_of_the_file_and_of_the_command_line_must_agree() {
    let stack = || in_a_file(json!({}));
    assert!(placed(stack(), None, "x").is_ok());
    assert!(placed(stack(), Some(NAMESPACE), "x").is_ok());
    let error = placed(stack(), Some("other"), "x").unwrap_err().to_string();
    assert!(
        error.contains("namespace links") && error.contains("other"),
        "{error}"
    );
    let mut nowhere = stack();
    nowhere.metadata.namespace = None;
    let placed = placed(nowhere, None, "x").unwrap();
    assert_eq!(placed.metadata.namespace.as_deref(), Some("x"));
}

#[test]
fn the_command_line_needs_a_file_and_explains_its_exit_codes() {
    let line = |arguments: &[&str]| PlanLine::try_parse_from(["plan"].iter().chain(arguments));
    assert!(line(&[]).is_err());
    assert!(line(&["-f", "-", "--offline", "--context", "kind"]).is_err());
    let parsed = line(&["-f", "stack.yaml", "-n", "links", "-o", "json"]).unwrap();
    assert_eq!(parsed.plan.output, PlanFormat::Json);
    let mut plan = PlanArguments::augment_args(clap::Command::new("plan"));
    let help = plan.render_help().to_string();
    assert!(help.contains("3 objects change, and"), "{help}");
    PlanLine::command().debug_assert();
}

#[tokio::test]
async fn offline_leaves_no_room_for_a_context_before_the_command() {
    let line = "kubectl-shortener --context kind plan -f absent.yaml --offline";
    let plugin = Plugin::try_parse_from(line.split(' ')).unwrap();
    let PluginCommand::Plan(arguments) = plugin.command else {
        panic!("not the plan command");
    };
    let error = run(arguments, &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("--context"), "{error}");
}

#[test]
fn each_outcome_has_its_exit_code() {
    let codes = [
        (PlanOutcome::Unchanged, 0_u8),
        (PlanOutcome::Blocked, 1),
        (PlanOutcome::Changed, 2),
        (PlanOutcome::Disturbed, 3),
    ];
    for (outcome, code) in codes {
        let found = format!("{:?}", ExitCode::from(outcome));
        assert_eq!(found, format!("{:?}", ExitCode::from(code)));
    }
}
