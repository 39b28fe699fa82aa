//! Tests of the drills of a running stack, in virtual time.

use std::{future::pending, time::Duration};

use http::StatusCode;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Service,
    events::v1::Event,
};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shortener_operator_core::{
    api::{
        DrillPhase, DrillRequest, DrillVerdict, ShortenerDrill, ShortenerDrillStatus,
        ShortenerStack,
    },
    model::drill::DRILL,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::Shared;
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

const SHORTEN: &str = "POST /api/shorten";
const REDIRECT: &str = "GET /k7Qm2xB";

/// A stack whose pods run as soon as they are asked for.
struct Running {
    world: World,
    pods: AbortOnDropHandle<()>,
}

impl Running {
    async fn start(allowed: bool) -> Self {
        let spec = json!({
            "drills": {"enabled": allowed},
            "profiles": ["caching", "queue"],
            "gateway": {"provider": "Standalone", "endToEndProbe": {"intervalSeconds": 30}},
        });
        let server = FakeApiServer::default();
        server.add_kind::<ShortenerDrill>();
        server.create(&stored_stack(spec));
        let pods = run_pods(server.clone());
        let world = World::start(server);
        world.pass(Duration::from_secs(90)).await;
        world.server.forget_writes();
        Self { world, pods }
    }

    /// Starts a stack of which a drill takes a store away since 5 s.
    async fn drilled(store: &str) -> Self {
        let running = Self::start(true).await;
        running.drill("mine", store);
        running.pass(5).await;
        let status = running.status("mine");
        let conditions = running.world.stack("acme").status.unwrap().conditions;
        assert_eq!(
            status.phase,
            Some(DrillPhase::Active),
            "{status:?} {conditions:?}"
        );
        running
    }

    fn drill(&self, name: &str, store: &str) {
        let drill = json!({
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"stackRef": {"name": "acme"}, "store": store, "seconds": 60},
        });
        let drill: ShortenerDrill = serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerDrill",
            "metadata": drill["metadata"], "spec": drill["spec"],
        }))
        .unwrap();
        let now = (self.world.context.clock)();
        self.world.server.create_at(&drill, now);
    }

    async fn pass(&self, seconds: u64) {
        self.world.pass(Duration::from_secs(seconds)).await;
    }

    fn status(&self, name: &str) -> ShortenerDrillStatus {
        let drill = self.world.server.get::<ShortenerDrill>(NAMESPACE, name);
        drill.unwrap().status.unwrap_or_default()
    }

    fn phase(&self, name: &str) -> Option<DrillPhase> {
        self.status(name).phase
    }

    /// Returns true when the server of a store is scaled to zero and marked. It never is one without the other.
    fn is_away(&self, name: &str) -> bool {
        let server: StatefulSet = self.world.server.get(NAMESPACE, name).unwrap();
        let is_marked = server.annotations().contains_key(DRILL);
        let replicas = server.spec.unwrap().replicas;
        assert_eq!(replicas, Some(i32::from(!is_marked)));
        is_marked
    }

    async fn restart(self) -> Self {
        Self {
            world: self.world.restart().await,
            pods: self.pods,
        }
    }

    /// Stops the operator, and starts another one after a time.
    async fn without_operator(self, seconds: u64) -> Self {
        let Self { world, pods } = self;
        let (server, gateway) = (world.server.clone(), world.gateway.clone());
        world.end().await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let world = World::start_behind(server, gateway);
        Self { world, pods }
    }

    /// Returns the exported series about drills.
    fn series(&self) -> Vec<String> {
        let page = self.world.metrics();
        let series = page
            .lines()
            .filter(|line| line.starts_with("shortener_stack_drill"));
        series.map(str::to_owned).collect()
    }

    /// Returns the reasons of the Events about the beginning and the end of drills.
    fn events(&self) -> Vec<String> {
        let names = self.world.server.names().into_iter();
        let events = names.filter_map(|name| {
            let event: Event = self
                .world
                .server
                .get(NAMESPACE, name.strip_prefix("events/")?)?;
            event.reason
        });
        let mut reasons: Vec<String> = events
            .filter(|reason| ["DrillBegun", "DrillEnded"].contains(&reason.as_str()))
            .collect();
        reasons.sort();
        reasons
    }
}

/// Keeps the statuses of all workloads as if their pods started and stopped at once.
fn run_pods(server: FakeApiServer) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            for name in server.names() {
                match name.split_once('/') {
                    Some(("deployments", name)) => run::<Deployment>(&server, name),
                    Some(("statefulsets", name)) => run::<StatefulSet>(&server, name),
                    Some(("services", "acme-app")) => assign_address(&server),
                    _ => {}
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }))
}

/// Gives the app's Service an address like the API server.
fn assign_address(server: &FakeApiServer) {
    let service: Service = server.get(NAMESPACE, "acme-app").unwrap();
    if service.spec.unwrap().cluster_ip.is_none() {
        server.edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into();
        });
    }
}

fn run<K>(server: &FakeApiServer, name: &str)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + serde::Serialize,
{
    let Some(live) = server.get::<K>(NAMESPACE, name) else {
        return;
    };
    let live = json!(live);
    let replicas = &live["spec"]["replicas"];
    let status = json!({
        "observedGeneration": live["metadata"]["generation"], "replicas": replicas,
        "readyReplicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
    });
    if live["status"] != status {
        server.edit::<K>(NAMESPACE, name, |live| live["status"] = status);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_is_away_until_the_end_and_the_report_says_what_users_saw() {
    let running = Running::start(true).await;
    assert_eq!(running.world.condition("acme", "Ready").status, "True");
    running.drill("mine", "Cache");
    running.pass(5).await;
    assert!(running.is_away("acme-cache"));
    assert!(!running.is_away("acme-postgres"));
    assert_eq!(running.world.verdict("CacheReady"), "False DrillActive");
    let paths: Vec<String> = running
        .world
        .server
        .writes()
        .into_iter()
        .map(|write| write.path)
        .collect();
    let place = |part: &str| paths.iter().position(|path| path.contains(part)).unwrap();
    assert!(
        place("shortenerdrills/mine/status") < place("statefulsets/acme-cache"),
        "{paths:?}"
    );
    let begun = running.status("mine");
    let (start, end) = (begun.start_time.unwrap().0, begun.end_time.unwrap().0);
    assert_eq!(end.duration_since(start).as_secs(), 60);

    running.pass(54).await;
    assert!(running.is_away("acme-cache"));
    running.pass(3).await;
    assert!(!running.is_away("acme-cache"));
    assert_eq!(running.phase("mine"), Some(DrillPhase::Recovering));
    running.pass(20).await;
    let status = running.status("mine");
    assert_eq!(status.phase, Some(DrillPhase::Complete), "{status:?}");
    assert_eq!(status.verdict, Some(DrillVerdict::Held), "{status:?}");
    assert_eq!(status.requests.len(), 4);
    assert!(
        status
            .requests
            .iter()
            .all(|report| report.sent >= 30 && report.served == report.sent)
    );
    let jobs = status.jobs.unwrap();
    assert!(
        jobs.accepted >= 30 && jobs.done == jobs.accepted,
        "{jobs:?}"
    );
    assert_eq!(running.events(), ["DrillBegun", "DrillEnded"]);
    assert_eq!(running.world.verdict("CacheReady"), "True PodsReady");
}

#[tokio::test(start_paused = true)]
async fn a_drill_that_is_complete_is_never_acted_upon_again() {
    let running = Running::drilled("Cache").await;
    running.pass(90).await;
    assert_eq!(running.phase("mine"), Some(DrillPhase::Complete));
    running.world.server.forget_writes();
    let running = running.restart().await;
    running.pass(600).await;
    let writes = running.world.server.writes().into_iter();
    let of_drills = writes.filter(|write| write.path.contains("drills"));
    assert_eq!(of_drills.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_leader_exports_the_drills_that_exist_and_no_others() {
    let running = Running::drilled("Cache").await;
    let cache = r#"namespace="links",stack="acme",store="Cache""#;
    let is_running = format!("shortener_stack_drill_running{{{cache}}} 1");
    assert!(running.series().contains(&is_running));
    running.drill("a-second", "Queue");
    running.pass(90).await;
    let end = running.status("mine").completion_time.unwrap().0;
    let series = running.series();
    for line in [
        format!("shortener_stack_drill_running{{{cache}}} 0"),
        format!("shortener_stack_drill_longest_gap_seconds{{{cache}}} 0"),
        format!(
            "shortener_stack_drill_held_timestamp_seconds{{{cache}}} {}",
            end.as_second()
        ),
        r#"shortener_stack_drills{namespace="links",result="Refused",stack="acme",store="Queue"} 1"#
            .to_owned(),
    ] {
        assert!(series.contains(&line), "{line}: {series:?}");
    }
    let running = running.restart().await;
    running.pass(10).await;
    assert_eq!(running.series(), series);

    let server = &running.world.server;
    server.edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
        stack["spec"]["paused"] = "no boolean".into();
    });
    server.delete::<ShortenerDrill>(NAMESPACE, "a-second");
    running.pass(5).await;
    let is_of_cache = |line: &String| line.contains(r#"store="Cache""#);
    let left = running.series();
    assert!(!left.is_empty() && left.iter().all(is_of_cache), "{left:?}");
    server.delete::<ShortenerStack>(NAMESPACE, "acme");
    running.pass(5).await;
    assert_eq!(running.series(), [] as [&str; 0]);
    assert_eq!(running.phase("mine"), Some(DrillPhase::Complete));
}

#[tokio::test(start_paused = true)]
async fn each_drill_has_events_that_name_it() {
    let running = Running::drilled("Cache").await;
    running.pass(90).await;
    assert_eq!(running.phase("mine"), Some(DrillPhase::Complete));
    running.drill("another", "Cache");
    running.pass(5).await;
    assert_eq!(running.phase("another"), Some(DrillPhase::Active));
    let mut events = running.world.events();
    events.retain(|event| event.reason.as_deref() == Some("DrillBegun"));
    let named = |name: &str| {
        let start = format!("ShortenerDrill {name} ");
        events.iter().any(|event| {
            let related = event
                .related
                .as_ref()
                .and_then(|drill| drill.name.as_deref());
            let note = event.note.as_deref().unwrap_or_default();
            note.starts_with(&start) && related == Some(name)
        })
    };
    assert!(named("mine") && named("another"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_costs_what_the_documentation_says_and_no_more() {
    for (cached, verdict) in [(true, DrillVerdict::Held), (false, DrillVerdict::Broken)] {
        let running = Running::drilled("Database").await;
        assert!(running.is_away("acme-postgres"));
        let down = StatusCode::SERVICE_UNAVAILABLE;
        running.world.gateway.answers(SHORTEN, down, json!({}));
        if !cached {
            running.world.gateway.answers(REDIRECT, down, json!({}));
        }
        running.pass(56).await;
        running.world.gateway.recovers();
        running.pass(30).await;
        let status = running.status("mine");
        assert_eq!(status.verdict, Some(verdict), "{status:?}");
        let creates = &status.requests[2];
        assert_eq!(creates.request, DrillRequest::Create);
        assert!(creates.answers["503"] >= 20, "{creates:?}");
        assert!(creates.longest_gap_milliseconds >= 50_000, "{creates:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drill_that_is_refused_takes_nothing_away_and_is_never_acted_upon_later() {
    let running = Running::start(false).await;
    running.drill("mine", "Cache");
    running.pass(5).await;
    let status = running.status("mine");
    assert_eq!(status.phase, Some(DrillPhase::Refused));
    assert_eq!(status.conditions[0].reason, "DrillsNotAllowed");
    running
        .world
        .edit_spec("acme", |spec| spec["drills"] = json!({"enabled": true}));
    let running = running.restart().await;
    running.pass(120).await;
    assert!(!running.is_away("acme-cache"));
    assert_eq!(running.status("mine"), status);
    running.drill("vector", "Vector");
    running.pass(5).await;
    assert_eq!(
        running.status("vector").conditions[0].reason,
        "StoreNotInStack"
    );
    assert_eq!(running.events(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_second_drill_is_refused_while_one_runs() {
    let running = Running::drilled("Cache").await;
    running.drill("a-second", "Queue");
    running.pass(5).await;
    assert_eq!(
        running.status("a-second").conditions[0].reason,
        "AnotherDrill"
    );
    assert!(running.is_away("acme-cache") && !running.is_away("acme-rabbitmq"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_away_if_the_requests_do_not_work_before() {
    let running = Running::start(true).await;
    let answer = json!({});
    running
        .world
        .gateway
        .answers(REDIRECT, StatusCode::BAD_GATEWAY, answer);
    running.drill("mine", "Cache");
    running.pass(5).await;
    let status = running.status("mine");
    assert_eq!(
        status.verdict,
        Some(DrillVerdict::Inconclusive),
        "{status:?}"
    );
    assert_eq!(status.conditions[0].reason, "ProberFailed");
    assert_eq!(status.start_time, None);
    assert!(!running.is_away("acme-cache"));
}

#[tokio::test(start_paused = true)]
async fn a_drill_whose_store_stays_proves_nothing() {
    for store in ["Cache", "Queue"] {
        let running = Running::start(true).await;
        let server = &running.world.server;
        server.fail_kind::<StatefulSet>(Some(Fault::Refuse(403)));
        running.drill("mine", store);
        running.pass(120).await;
        let status = running.status("mine");
        assert_eq!(
            status.verdict,
            Some(DrillVerdict::Inconclusive),
            "{status:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_operator_ends_a_drill_that_one_has_begun() {
    let running = Running::drilled("Cache").await;
    running.pass(20).await;
    running.world.server.forget_writes();
    let running = running.restart().await;
    running.pass(10).await;
    assert!(running.is_away("acme-cache"));
    let writes = running.world.server.writes().into_iter();
    let stores = writes.filter(|write| write.path.contains("statefulsets"));
    assert_eq!(stores.count(), 0, "the store does not come back in between");
    running.pass(28).await;
    assert!(!running.is_away("acme-cache"));
    running.pass(60).await;
    let status = running.status("mine");
    assert_eq!(status.phase, Some(DrillPhase::Complete), "{status:?}");
    assert!(status.requests[0].sent > 45, "{status:?}");
    assert_eq!(running.events(), ["DrillBegun", "DrillEnded"]);
}

#[tokio::test(start_paused = true)]
async fn a_drill_whose_end_passed_while_no_operator_ran_is_over_when_one_starts() {
    let running = Running::drilled("Cache").await.without_operator(300).await;
    assert!(running.is_away("acme-cache"), "nobody gave it back");
    running.pass(10).await;
    assert!(!running.is_away("acme-cache"));
    running.pass(120).await;
    let status = running.status("mine");
    assert_eq!(
        status.verdict,
        Some(DrillVerdict::Inconclusive),
        "{status:?}"
    );
    assert!(status.unobserved_seconds >= 290, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_drill_that_nobody_observes_to_its_end_is_not_broken() {
    // The operator that takes over comes too late, or the stack has lost the way to its gateway.
    for (probed, seconds) in [(true, 400), (false, 1)] {
        let Running { world, pods } = Running::drilled("Cache").await;
        if !probed {
            world.edit_spec("acme", |spec| {
                spec["gateway"]["endToEndProbe"] = Value::Null;
            });
        }
        // The store starts slowly.
        drop(pods);
        let pods = AbortOnDropHandle::new(tokio::spawn(pending()));
        let running = Running { world, pods }.without_operator(seconds).await;
        running.pass(40).await;
        let status = running.status("mine");
        assert_eq!(status.phase, Some(DrillPhase::Complete), "{status:?}");
        assert_eq!(
            status.verdict,
            Some(DrillVerdict::Inconclusive),
            "{status:?}"
        );
        assert!(!running.is_away("acme-cache"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drill_of_a_stack_that_does_not_parse_is_not_for_an_operator_of_another_class() {
    let Running { world, pods } = Running::drilled("Cache").await;
    let server = world.server.clone();
    world.end().await;
    server.edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
        stack["spec"]["paused"] = "no boolean".into();
    });
    let world = World::start_as("blue", server);
    let running = Running { world, pods };
    running.pass(60).await;
    assert_eq!(running.phase("mine"), Some(DrillPhase::Active));
    assert!(!running.is_away("acme-cache"));
}

#[tokio::test(start_paused = true)]
async fn a_drill_that_was_created_while_no_operator_ran_does_not_begin_when_nobody_expects_it() {
    for (seconds, phase) in [(240, DrillPhase::Active), (360, DrillPhase::Refused)] {
        let running = Running::start(true).await;
        running.drill("mine", "Cache");
        let running = running.without_operator(seconds).await;
        running.pass(10).await;
        let status = running.status("mine");
        assert_eq!(status.phase, Some(phase), "{seconds}: {status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drill_that_is_deleted_or_no_longer_allowed_ends_at_once() {
    let running = Running::drilled("Cache").await;
    running
        .world
        .server
        .delete::<ShortenerDrill>(NAMESPACE, "mine");
    running.pass(3).await;
    assert!(!running.is_away("acme-cache"));
    assert_eq!(running.events(), ["DrillBegun", "DrillEnded"]);

    let running = Running::drilled("Queue").await;
    assert!(running.is_away("acme-rabbitmq"));
    running
        .world
        .edit_spec("acme", |spec| spec["drills"] = json!({"enabled": false}));
    running.pass(3).await;
    assert!(!running.is_away("acme-rabbitmq"));
    running.pass(3).await;
    let status = running.status("mine");
    assert_eq!(status.phase, Some(DrillPhase::Recovering), "{status:?}");
    let length = status
        .end_time
        .unwrap()
        .0
        .duration_since(status.start_time.unwrap().0);
    assert!(length.as_secs() < 20, "the end is the real one: {length}");
}

#[tokio::test(start_paused = true)]
async fn a_stack_to_which_nothing_is_applied_gets_its_store_back_all_the_same() {
    let edits: [fn(&mut Value); 4] = [
        |stack| stack["spec"]["paused"] = true.into(),
        |stack| stack["metadata"]["annotations"]["shortener.dev/plan-only"] = "true".into(),
        // The operator does not know the request, so nothing is built.
        |stack| stack["metadata"]["annotations"]["shortener.dev/unknown"] = "true".into(),
        // The resource cannot be parsed.
        |stack| stack["spec"]["paused"] = "no boolean".into(),
    ];
    for (place, edit) in edits.into_iter().enumerate() {
        let running = Running::drilled("Cache").await;
        let server = &running.world.server;
        server.edit::<ShortenerStack>(NAMESPACE, "acme", edit);
        running.pass(60).await;
        assert!(!running.is_away("acme-cache"), "edit {place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_whose_deletion_waits_gets_its_store_back_at_once() {
    let running = Running::drilled("Cache").await;
    let server = &running.world.server;
    // With `--cascade=orphan`, Kubernetes sets a finalizer too, and the server outlives the stack.
    server.edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
        stack["metadata"]["finalizers"] = json!(["orphan"]);
    });
    server.delete::<ShortenerStack>(NAMESPACE, "acme");
    running.pass(3).await;
    assert!(!running.is_away("acme-cache"));
    assert_eq!(running.phase("mine"), Some(DrillPhase::Recovering));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_could_not_be_given_back_to_a_stack_that_does_not_parse_is_tried_again() {
    let running = Running::drilled("Cache").await;
    let server = &running.world.server;
    server.fail_kind::<StatefulSet>(Some(Fault::Refuse(403)));
    server.edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
        stack["spec"]["paused"] = "no boolean".into();
    });
    server.delete::<ShortenerDrill>(NAMESPACE, "mine");
    running.pass(30).await;
    assert!(running.is_away("acme-cache"));
    server.fail_kind::<StatefulSet>(None);
    running.pass(60).await;
    assert!(!running.is_away("acme-cache"));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_drill_is_remembered_until_the_watch_shows_it_over_or_gone() {
    let running = Running::start(true).await;
    let shared = Shared {
        context: running.world.context.clone(),
        connect: running.world.gateway.connect(),
        over: Mutex::default(),
        stop: CancellationToken::new(),
    };
    let stack = (NAMESPACE.to_owned(), "acme".to_owned());
    for (name, is_deleted) in [("first", false), ("second", true)] {
        running.drill(name, "Cache");
        running.pass(5).await;
        shared.close(&shared.open(&stack)[0]);
        assert!(shared.open(&stack).is_empty());
        assert!(!shared.over.lock().is_empty());
        if is_deleted {
            let server = &running.world.server;
            server.delete::<ShortenerDrill>(NAMESPACE, name);
        }
        running.pass(90).await;
        assert!(shared.open(&stack).is_empty());
        assert!(shared.over.lock().is_empty(), "{name}");
    }
}
