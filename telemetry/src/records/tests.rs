use opentelemetry::logs::LoggerProvider as _;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt;

use super::*;

const HOST: &str = "pod-1";

/// Keeps the record instead of sending it.
#[derive(Clone)]
struct KeptRecord(LogRecords, Arc<Mutex<Option<SdkLogRecord>>>);

impl<S: Subscriber> Layer<S> for KeptRecord {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        *self.1.lock() = Some(self.0.record(event));
    }
}

fn logged(emit: impl FnOnce()) -> SdkLogRecord {
    let logger = SdkLoggerProvider::builder().build().logger("test");
    let kept = KeptRecord(LogRecords::new(logger, HOST), Arc::default());
    let subscriber = tracing_subscriber::registry().with(kept.clone());
    tracing::subscriber::with_default(subscriber, emit);
    kept.1.lock().take().unwrap()
}

fn attribute(record: &SdkLogRecord, name: &str) -> Option<AnyValue> {
    let mut found = record
        .attributes_iter()
        .filter(|(key, _)| key.as_str() == name);
    let value = found.next().map(|(_, value)| value.clone());
    assert!(found.next().is_none(), "{name} occurs twice");
    value
}

/// Returns the trace and the span that a record leads to.
fn ids(record: &SdkLogRecord) -> Option<(String, String)> {
    let context = record.trace_context()?;
    Some((context.trace_id.to_string(), context.span_id.to_string()))
}

#[test]
fn the_body_is_exactly_the_event_name_and_every_field_is_an_attribute() {
    let record = logged(|| {
        tracing::warn!(
            target: "a::place",
            event = "request",
            http.response.status_code = 302,
            duration = 0.25,
            huge = u64::MAX,
            ok = true,
            shown = %HOST,
            missing = None::<&str>,
            "request"
        );
    });
    assert_eq!(record.body(), Some(&AnyValue::from("request")));
    assert_eq!(record.event_name(), None);
    assert_eq!(record.severity_text(), Some("WARN"));
    assert_eq!(record.severity_number(), Some(Severity::Warn));
    assert_eq!(record.target().unwrap(), "a::place");
    assert!(record.timestamp().is_some() && record.observed_timestamp().is_some());
    assert_eq!(record.trace_context(), None);
    for (name, value) in [
        ("event", Some("request".into())),
        ("host", Some(HOST.into())),
        ("http.response.status_code", Some(302.into())),
        ("duration", Some(0.25.into())),
        ("huge", Some("18446744073709551615".into())),
        ("ok", Some(true.into())),
        ("shown", Some(HOST.into())),
        ("message", None),
        ("missing", None),
    ] {
        assert_eq!(attribute(&record, name), value, "{name}");
    }
}

#[test]
fn the_trace_is_both_an_attribute_and_the_context_of_the_record() {
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let record = logged(|| tracing::info!(trace_id = %trace, span_id = %span, "request"));
    assert_eq!(ids(&record), Some((trace.to_owned(), span.to_owned())));
    assert_eq!(attribute(&record, "trace_id"), Some(trace.into()));
    assert_eq!(attribute(&record, "span_id"), Some(span.into()));
}

#[tokio::test]
async fn a_record_made_during_work_leads_to_its_trace() {
    let trace = TraceContext::root();
    let work = span::Tracer::default().start(trace, span::SpanKind::Consumer, "work");
    let warn = async { logged(|| tracing::warn!(event = "odd", "odd")) };
    let record = span::in_span(&work, warn).await;
    let (id, span) = (trace.trace_id.to_string(), trace.span_id.to_string());
    assert_eq!(attribute(&record, "trace_id"), Some(id.clone().into()));
    assert_eq!(ids(&record), Some((id, span)));
}

#[test]
fn what_carries_the_records_is_not_heard() {
    for target in [
        "h2::codec",
        "hyper_util::client",
        "tonic",
        "opentelemetry_sdk",
    ] {
        assert!(is_carrier(target), "{target}");
    }
    for target in ["shortener_app::observe", "h2o", "lapin::channel", ""] {
        assert!(!is_carrier(target), "{target}");
    }
}
