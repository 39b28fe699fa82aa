//! The trace of a job from the request to the worker, and jobs during outages of the collector.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shortener_common::{
    queue::{decision::Decision, job, origin::Origin},
    trace::TraceContext,
};
use shortener_testing::{
    broker::{Broker, until},
    client::{json_bytes, send},
    database::TestDatabase,
    metrics,
    otlp::{Mode, Sink, closed_endpoint},
    process::Process,
    vector::Collection,
};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::{
    application,
    process::command,
    support::{prepare, publish, wait_until},
};

/// The trace identifiers of a caller that does not sample.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn start(database: &PgConnectOptions, broker: &Broker, endpoint: &str) -> Process {
    Process::spawn(
        command(database, broker)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env(
                "OTEL_RESOURCE_ATTRIBUTES",
                "k8s.pod.name=demo-worker-1,shortener.stack=demo",
            ),
    )
}

fn is(span: &Value, kind: &str, service: &str, parent: &Value) {
    assert_eq!(
        (&span["kind"], &span["service"]),
        (&json!(kind), &json!(service)),
        "{span}"
    );
    assert_eq!(span["parent_span_id"], *parent, "{span}");
    assert_eq!(span["status"], "UNSET", "{span}");
}

#[tokio::test]
async fn a_job_is_one_trace_from_the_request_over_the_broker_to_the_worker() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let (sink, endpoint) = Sink::start().await;
    let mut worker = start(&database, &broker, &endpoint);
    worker.event("queue_up").await;
    let exports = [format!("--otel-exporter-otlp-endpoint={endpoint}")];
    let public = application::start(&database, &broker.url(), &exports).await;
    // The app is connected to the broker from here on.
    application::accepts(public, "").await;
    worker.event("job_start").await;
    let headers = format!("traceparent: 00-{TRACE}-{CALLER}-00\r\nidempotency-key: k\r\n");
    let accepted = application::accepts(public, &headers).await;
    assert_eq!(accepted["trace_id"], TRACE);
    let started = worker.event("job_start").await;

    let published = sink.span(TRACE, "publish jobs").await;
    let request = sink.wait_for("the request", |sink| {
        let mut spans = sink.spans(TRACE).into_iter();
        spans.find(|span| span["span_id"] == published["parent_span_id"])
    });
    let request = request.await;
    assert_eq!(request["name"], "POST /jobs");
    is(&request, "SERVER", "app", &json!(CALLER));
    is(&published, "PRODUCER", "app", &request["span_id"]);
    is(
        &sink.span(TRACE, "UPDATE job_keys").await,
        "CLIENT",
        "app",
        &request["span_id"],
    );

    let processed = sink.span(TRACE, "process jobs").await;
    is(&processed, "CONSUMER", "worker", &published["span_id"]);
    let link = json!({"trace_id": TRACE, "span_id": published["span_id"]});
    assert_eq!(processed["links"], json!([link]));
    for name in ["INSERT jobs", "UPDATE jobs"] {
        let query = sink.span(TRACE, name).await;
        is(&query, "CLIENT", "worker", &processed["span_id"]);
        assert_eq!(query["attributes"]["db.system.name"], "postgresql");
    }

    for (span, operation) in [(&published, "publish"), (&processed, "process")] {
        let attributes = &span["attributes"];
        for (name, value) in [
            ("messaging.system", json!("rabbitmq")),
            ("messaging.destination.name", json!("jobs")),
            ("messaging.rabbitmq.destination.routing_key", json!("jobs")),
            ("messaging.operation.name", json!(operation)),
            ("messaging.message.id", accepted["id"].clone()),
            ("messaging.message.body.size", json!(23)),
        ] {
            assert_eq!(attributes[name], value, "{name} in {span}");
        }
    }
    assert_eq!(processed["attributes"]["job.task"], "email");
    assert_eq!(started["span_id"], processed["span_id"]);
}

#[tokio::test]
async fn a_document_is_one_trace_from_the_request_over_the_worker_to_the_vector_store() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let (collection, (sink, endpoint)) = (Collection::default(), Sink::start().await);
    let settings = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("VECTOR_URL", collection.url()),
        ("VECTOR_API_KEY", collection.key.clone()),
        ("VECTOR_COLLECTION", collection.name.clone()),
    ];
    let flags = settings.clone().map(|(name, value)| {
        let flag = name.to_lowercase().replace('_', "-");
        format!("--{flag}={value}")
    });
    let mut worker = Process::spawn(command(&database, &broker).envs(settings));
    worker.event("queue_up").await;
    let public = application::start(&database, &broker.url(), &flags).await;
    let document = json_bytes("PUT", "/docs/7", "", br#"{"vector":[1,0,0,0]}"#);
    let accepted = until("a job", async || {
        let stored = send(public, &document).await.json();
        let enqueued = stored["status"] == "enqueued";
        enqueued.then_some(stored.clone()).ok_or(stored.to_string())
    })
    .await;
    let trace = accepted["trace_id"].as_str().unwrap();
    let request = sink.span(trace, "PUT /docs/{id}").await;
    is(&request, "SERVER", "app", &json!(""));
    let published = sink.span(trace, "publish jobs").await;
    is(&published, "PRODUCER", "app", &request["span_id"]);
    let processed = sink.span(trace, "process jobs").await;
    is(&processed, "CONSUMER", "worker", &published["span_id"]);
    for operation in ["get_collection", "upsert"] {
        let name = format!("{operation} {}", collection.name);
        let call = sink.span(trace, &name).await;
        is(&call, "CLIENT", "worker", &processed["span_id"]);
        let attributes = &call["attributes"];
        for (name, value) in [
            ("db.system.name", "qdrant"),
            ("db.collection.name", collection.name.as_str()),
            ("db.operation.name", operation),
        ] {
            assert_eq!(attributes[name], value, "{name} in {call}");
        }
    }
}

#[tokio::test]
async fn the_log_records_of_a_job_lead_to_its_trace() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let (sink, endpoint) = Sink::start().await;
    let mut worker = start(&database, &broker, &endpoint);
    worker.event("queue_up").await;
    let (id, trace) = (Uuid::now_v7(), TraceContext::continuing(None));
    let properties = job::properties(id, &Origin::Internal, &Decision::default(), trace, None);
    broker
        .publish(properties, br#"{"task":"email","id":1}"#)
        .await;
    let trace = trace.trace_id.to_string();
    let processed = sink.span(&trace, "process jobs").await;
    for body in ["job_start", "job_done"] {
        let record = sink.log(&trace, body).await;
        assert_eq!(record["severity"], "INFO");
        assert_eq!(record["span_id"], processed["span_id"]);
        assert_eq!(record["service"], "worker");
        assert_eq!(record["resource"]["service.instance.id"], "worker-9");
        assert_eq!(record["resource"]["k8s.pod.name"], "demo-worker-1");
        assert_eq!(record["resource"]["shortener.stack"], "demo");
        let attributes = &record["attributes"];
        for (name, value) in [
            ("event", json!(body)),
            ("host", json!("worker-9")),
            ("trace_id", json!(trace)),
            ("span_id", processed["span_id"].clone()),
            ("job.id", json!(id.to_string())),
            ("job.client_id", json!("1")),
            ("job.task", json!("email")),
        ] {
            assert_eq!(attributes[name], value, "{name} in {record}");
        }
    }
}

#[tokio::test]
async fn what_goes_wrong_with_a_job_is_an_error_of_its_span() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let (sink, endpoint) = Sink::start().await;
    let mut worker = start(&database, &broker, &endpoint);
    worker.event("queue_up").await;
    for (body, kind) in [
        ("no json", "invalid"),
        (r#"{"task":"wait","ms":"x"}"#, "rejected"),
    ] {
        let trace = TraceContext::continuing(None);
        let properties = job::properties(
            Uuid::now_v7(),
            &Origin::Internal,
            &Decision::default(),
            trace,
            None,
        );
        broker.publish(properties, body.as_bytes()).await;
        let span = sink.span(&trace.trace_id.to_string(), "process jobs").await;
        assert_eq!(span["status"], "ERROR", "{span}");
        assert_eq!(span["attributes"]["error.type"], kind, "{span}");
    }
}

/// Checks that jobs are done in every failure of the collector, and that the process ends in time.
async fn survives(database: &PgConnectOptions, endpoint: &str) {
    let (broker, pool) = (Broker::new().await, prepare(database).await);
    let mut worker = start(database, &broker, endpoint);
    let listening = worker.event("listening").await;
    let internal = listening["internal.address"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    worker.event("queue_up").await;
    for _ in 0..3 {
        let id = publish(&broker, r#"{"task":"email"}"#).await;
        assert_eq!(wait_until(&pool, id, "done").await, 1);
    }
    metrics::wait_for_drops(internal).await;
    let id = publish(&broker, r#"{"task":"email"}"#).await;
    wait_until(&pool, id, "done").await;
    worker.terminate().await;
    assert_eq!(worker.event("stopped").await["complete"], true);
    // From here on the process only waits for its last batches.
    let begin = Instant::now();
    assert!(worker.exit().await.success());
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn jobs_are_done_without_a_collector() {
    let database = TestDatabase::new().await;
    survives(&database, &closed_endpoint().await).await;
}

#[tokio::test]
async fn jobs_are_done_while_the_collector_refuses() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Refusing);
    survives(&database, &endpoint).await;
}

#[tokio::test]
async fn jobs_are_done_while_the_collector_is_frozen() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Frozen);
    survives(&database, &endpoint).await;
}
