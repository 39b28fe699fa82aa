use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use opentelemetry_sdk::trace::SpanExporter as _;
use serde_json::Value;
use shortener_testing::otlp::{Mode, Sink, closed_endpoint, until_reconnected};
use tokio::time::{sleep, timeout};
use tracing_subscriber::layer::SubscriberExt;

use super::{export::GATHER, span::in_span, trace::TraceContext, *};

const SERVICE: Service<'_> = Service {
    name: "app",
    version: "1.2.3",
    host: "replica-7",
};
/// More than two batches.
const CAPACITY: usize = 1100;
/// The time limit of a shutdown.
const LIMIT: Duration = Duration::from_secs(1);
/// More time than a busy machine needs, and less than a batch may take.
const SOON: Duration = Duration::from_secs(4);

/// The counts of lost items.
#[derive(Clone, Default)]
struct Lost(Arc<AtomicU64>);

impl Lost {
    fn queue(&self) -> Queue {
        let count = Arc::clone(&self.0);
        Queue::new(CAPACITY, move |items| {
            count.fetch_add(items, Ordering::Relaxed);
        })
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    async fn until(&self, count: u64) {
        let reached = async {
            while self.count() != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = timeout(Duration::from_secs(30), reached).await;
        assert!(reached.is_ok(), "{} are lost", self.count());
    }
}

fn start(endpoint: &str) -> Result<(Telemetry, Lost), TelemetryError> {
    let lost = Lost::default();
    let telemetry = Telemetry::start(endpoint, SERVICE, 1.0, lost.queue(), Some(lost.queue()))?;
    Ok((telemetry, lost))
}

/// Ends this many spans.
fn work(telemetry: &Telemetry, spans: usize) {
    for _ in 0..spans {
        telemetry.tracer().root("work").unwrap().end();
    }
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_exported() {
    let telemetry = Telemetry::default();
    assert!(telemetry.log_records().is_none() && !telemetry.tracer().is_on());
    telemetry.shutdown(LIMIT).await;
}

#[tokio::test]
async fn a_malformed_endpoint_is_refused_by_the_name_of_its_setting() {
    for bad in ["collector:4317", "ftp://collector", "http://", "a b", ""] {
        let message = start(bad).err().unwrap().to_string();
        assert!(message.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{message}");
    }
}

#[tokio::test]
async fn an_endpoint_may_be_reached_over_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for good in ["http://collector:4317", "https://collector.example"] {
        let (telemetry, _) = start(good).unwrap();
        assert!(telemetry.tracer().is_on());
    }
}

#[tokio::test]
async fn a_connection_that_answers_nothing_is_replaced() {
    until_reconnected(async |endpoint| {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(channel(&endpoint).unwrap());
        let exporter = exporter.with_timeout(EXPORT).build().unwrap();
        for _ in 0..2 {
            let _ = timeout(EXPORT, exporter.export(Vec::new())).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_collector_gets_spans_and_log_records_and_the_name_of_the_program() {
    let (sink, endpoint) = Sink::start().await;
    let (telemetry, lost) = start(&endpoint).unwrap();
    let header = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let trace = TraceContext::continuing(Some(header));
    let mut span = telemetry
        .tracer()
        .start(trace, span::SpanKind::Server, "GET /");
    span.set("http.route", "/").link_parent();
    let subscriber = tracing_subscriber::registry().with(telemetry.log_records());
    let guard = tracing::subscriber::set_default(subscriber);
    in_span(&span, async { tracing::info!(event = "odd", "odd") }).await;
    drop(guard);
    span.fail("timeout", "too late");
    span.end();
    telemetry.shutdown(SOON).await;

    let id = trace.trace_id.to_string();
    let (span, record) = (sink.span(&id, "GET /").await, sink.log(&id, "odd").await);
    for (value, expected) in [
        (&span["span_id"], trace.span_id.to_string().as_str()),
        (&span["parent_span_id"], "b7ad6b7169203331"),
        (&span["links"][0]["span_id"], "b7ad6b7169203331"),
        (&span["kind"], "SERVER"),
        (&span["status"], "ERROR"),
        (&span["status_message"], "too late"),
        (&span["attributes"]["error.type"], "timeout"),
        (&span["attributes"]["http.route"], "/"),
        (&record["span_id"], trace.span_id.to_string().as_str()),
        (&record["severity"], "INFO"),
        (&record["attributes"]["event"], "odd"),
        (&record["attributes"]["host"], "replica-7"),
        (&record["attributes"]["trace_id"], id.as_str()),
    ] {
        assert_eq!(*value, Value::from(expected), "{span} {record}");
    }
    for item in [&span, &record] {
        assert_eq!(item["service"], "app");
        assert_eq!(item["resource"]["service.version"], "1.2.3");
        assert_eq!(item["resource"]["service.instance.id"], "replica-7");
    }
    assert_eq!(lost.count(), 0);
}

#[tokio::test]
async fn what_waits_goes_out_soon_and_at_the_end_at_once() {
    let (sink, endpoint) = Sink::start().await;
    let (telemetry, lost) = start(&endpoint).unwrap();
    work(&telemetry, 3);
    let three = |sink: &Sink| (sink.spans_taken() == 3).then_some(());
    sink.wait_for("three spans", three).await;
    work(&telemetry, CAPACITY);
    telemetry.shutdown(SOON).await;
    assert_eq!(sink.spans_taken(), 3 + CAPACITY as u64);
    assert_eq!(lost.count(), 0);
}

#[tokio::test]
async fn at_a_silent_collector_the_queue_fills_and_everything_beyond_is_counted_without_delay() {
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Frozen);
    let (telemetry, lost) = start(&endpoint).unwrap();
    let begin = Instant::now();
    work(&telemetry, 4 * CAPACITY);
    assert!(begin.elapsed() < GATHER, "{:?}", begin.elapsed());
    // At most three batches have left the queue meanwhile.
    let (most, least) = (3 * CAPACITY as u64, 3 * CAPACITY as u64 - 3 * 512);
    assert!((least..=most).contains(&lost.count()), "{}", lost.count());
    let begin = Instant::now();
    telemetry.shutdown(LIMIT).await;
    assert!(begin.elapsed() < SOON, "the end took {:?}", begin.elapsed());
}

#[tokio::test]
async fn every_item_of_an_outage_is_counted_and_those_after_it_are_taken() {
    for refuses in [true, false] {
        let (sink, taking) = Sink::start().await;
        sink.set(Mode::Refusing);
        let endpoint = if refuses {
            taking
        } else {
            closed_endpoint().await
        };
        let (telemetry, lost) = start(&endpoint).unwrap();
        work(&telemetry, 5);
        lost.until(5).await;
        work(&telemetry, 4);
        lost.until(9).await;
        if refuses {
            sink.set(Mode::Taking);
            work(&telemetry, 2);
            telemetry.shutdown(SOON).await;
            assert_eq!((sink.spans_taken(), lost.count()), (2, 9));
        }
    }
}

#[tokio::test]
async fn an_export_that_is_dropped_ends_at_once() {
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Frozen);
    let (telemetry, _) = start(&endpoint).unwrap();
    work(&telemetry, 1);
    let tracer = telemetry.tracer();
    let begin = Instant::now();
    drop((telemetry, tracer));
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
}
