//! Tests of the traces of reconciles and of queries, and of the Events that lead to them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use opentelemetry::{SpanId, trace::Status};
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

use crate::{
    telemetry::Telemetry,
    testing::{
        api_server::{FakeApiServer, Fault},
        collector::FakeCollector,
        shared::stored_stack,
        world::{NAMESPACE, World},
    },
};

/// Names of the steps of a reconcile.
const STEPS: [&str; 5] = ["gather", "validate", "build", "apply", "status"];

/// An operator that traces all its work.
struct TracedWorld {
    collector: FakeCollector,
    world: World,
    /// The export, which ends with it.
    _telemetry: Telemetry,
}

impl TracedWorld {
    /// Starts an operator without stacks.
    async fn start() -> Self {
        let collector = FakeCollector::default();
        let telemetry = collector.telemetry();
        let world = World::start_traced(FakeApiServer::default(), telemetry.tracer());
        world.settle().await;
        Self {
            collector,
            world,
            _telemetry: telemetry,
        }
    }

    /// Creates the stack `acme` and waits until it is built.
    async fn with_stack(self, spec: Value) -> Self {
        self.world.server.create(&stored_stack(spec));
        self.world.settle().await;
        self
    }

    /// Returns the first spans of all traces of this name, and all spans by the identifier of their parent.
    fn traces(&self, name: &str) -> (Vec<SpanData>, BTreeMap<String, Vec<SpanData>>) {
        let (mut roots, mut parts) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for span in self.collector.spans() {
            if span.parent_span_id != SpanId::INVALID {
                let parent = span.parent_span_id.to_string();
                parts.entry(parent).or_default().push(span);
            } else if span.name == name {
                roots.push(span);
            }
        }
        (roots, parts)
    }

    fn reconciles(&self) -> (Vec<SpanData>, BTreeMap<String, Vec<SpanData>>) {
        self.traces("reconcile ShortenerStack")
    }
}

fn id(span: &SpanData) -> String {
    span.span_context.span_id().to_string()
}

fn attribute(span: &SpanData, name: &str) -> String {
    let mut found = span
        .attributes
        .iter()
        .filter(|set| set.key.as_str() == name);
    let value = found.next().map(|set| set.value.to_string());
    assert!(found.next().is_none(), "{name} occurs twice");
    value.unwrap_or_default()
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_ref()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_one_trace_with_five_steps_and_their_requests() {
    let scene = TracedWorld::start().await.with_stack(json!({})).await;
    let (roots, parts) = scene.reconciles();
    let stack = scene.world.stack("acme").metadata;
    for root in &roots {
        assert_eq!(names(&parts[&id(root)]), STEPS);
        assert_eq!(root.status, Status::Unset);
        for (name, value) in [
            ("k8s.namespace.name", NAMESPACE),
            ("shortener.stack.name", "acme"),
            ("shortener.stack.uid", stack.uid.as_deref().unwrap()),
            ("shortener.stack.generation", "1"),
            ("shortener.reconcile.outcome", "ok"),
        ] {
            assert_eq!(attribute(root, name), value);
        }
    }
    let steps = &parts[&id(&roots[0])];
    let requests = |step: usize| names(&parts[&id(&steps[step])]);
    assert!(requests(0).contains(&"GET secrets"), "{:?}", requests(0));
    let writes = requests(3);
    for name in ["POST secrets", "PATCH deployments", "PATCH services"] {
        assert!(writes.contains(&name), "{name}: {writes:?}");
    }
    assert!(requests(4).contains(&"PATCH shortenerstacks/status"));
    assert!(requests(4).contains(&"POST events"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_the_status_of_its_span_its_step_and_its_reconcile() {
    let scene = TracedWorld::start().await;
    let refusal = Some(Fault::Refuse(500));
    scene.world.server.fail_kind::<Deployment>(refusal);
    let scene = scene.with_stack(json!({})).await;
    let (roots, parts) = scene.reconciles();
    let (root, steps) = (&roots[0], &parts[&id(&roots[0])]);
    assert_eq!(names(steps), STEPS);
    let refused: Vec<_> = parts[&id(&steps[3])]
        .iter()
        .filter(|request| request.status != Status::Unset)
        .collect();
    assert!(!refused.is_empty());
    for request in refused {
        assert_eq!(request.name, "PATCH deployments");
        assert_eq!(attribute(request, "http.response.status_code"), "500");
        assert_eq!(attribute(request, "error.type"), "500");
    }
    for failed in [root, &steps[3]] {
        assert_eq!(attribute(failed, "error.type"), "ApplyFailed");
        let Status::Error { description } = &failed.status else {
            panic!("{failed:?}")
        };
        assert!(description.contains("Deployment/acme-"), "{description}");
    }
    assert_eq!(
        attribute(root, "shortener.reconcile.outcome"),
        "ApplyFailed"
    );
    assert_eq!(steps[4].status, Status::Unset, "the status was written");
}

#[tokio::test(start_paused = true)]
async fn an_event_leads_to_the_trace_of_its_reconcile() {
    let scene = TracedWorld::start().await.with_stack(json!({})).await;
    let (roots, _) = scene.reconciles();
    let traces: Vec<_> = roots
        .iter()
        .map(|root| root.span_context.trace_id().to_string())
        .collect();
    let events = scene.world.events();
    assert!(!events.is_empty());
    for event in events {
        let note = event.note.unwrap();
        let named = |trace: &String| note.ends_with(&format!(" (trace {trace})"));
        assert!(traces.iter().any(named), "{note}");
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_with_one_reason_have_an_event_each() {
    let world = World::with_stack(json!({})).await;
    let events = world.events();
    let mut conditions = world.stack("acme").status.unwrap().conditions;
    conditions.retain(|told| !["Reconciling", "Stalled"].contains(&told.type_.as_str()));
    let reasons: BTreeSet<_> = conditions.iter().map(|told| &told.reason).collect();
    assert!(reasons.len() < conditions.len(), "{conditions:?}");
    for told in &conditions {
        let start = format!("{} is ", told.type_);
        let tells = events.iter().any(|event| {
            let note = event.note.as_deref().unwrap_or_default();
            event.reason.as_ref() == Some(&told.reason) && note.starts_with(&start)
        });
        assert!(tells, "{told:?}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_of_a_broker_is_a_trace_with_its_requests() {
    let queue = json!({"profiles": ["queue"]});
    let scene = TracedWorld::start().await.with_stack(queue).await;
    let (roots, parts) = scene.traces("query broker");
    let root = roots.first().expect("a trace of a query");
    assert_eq!(attribute(root, "k8s.namespace.name"), NAMESPACE);
    assert_eq!(attribute(root, "shortener.stack.name"), "acme");
    let requests = &parts[&id(root)];
    assert_eq!(requests[0].name, "GET queues");
    assert_eq!(attribute(&requests[0], "server.port"), "15672");
}
