//! Log events as OTLP log records: the body is exactly the message of the event, and every field is an attribute.

mod direct;

use std::{fmt, sync::Arc, time::SystemTime};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::{
    otlp::{Record, Severity},
    queue::Queue,
    span,
    wire::Value,
};
use crate::{
    event::Fields as _,
    trace::{SpanId, TraceContext, TraceId},
};

/// The crates that send records to the collector. Exporting their own events would produce more of them.
const CARRIERS: [&str; 9] = [
    "h2",
    "hyper",
    "hyper_util",
    "opentelemetry",
    "opentelemetry_otlp",
    "opentelemetry_sdk",
    "tokio_rustls",
    "tonic",
    "tower",
];

/// A log layer that exports events to the collector; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogRecords {
    records: Queue,
    host: Arc<str>,
}

impl LogRecords {
    /// Returns a layer that sends through this queue, on behalf of this replica.
    pub(super) fn new(records: Queue, host: &str) -> Self {
        Self {
            records,
            host: Arc::from(host),
        }
    }
}

impl<S: Subscriber> Layer<S> for LogRecords {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_carrier(event.metadata().target()) {
            return;
        }
        // The target is the name of the instrumentation scope.
        let record = filled(event, SystemTime::now(), &self.host);
        self.records
            .offer(event.metadata().target(), record.message());
    }
}

fn is_carrier(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or(target);
    CARRIERS.contains(&name)
}

/// Returns the current trace context, or `None` if the event has a `trace_id` field of its own.
pub(crate) fn implied_trace(event: &Event<'_>) -> Option<TraceContext> {
    let says = event.metadata().fields().field("trace_id").is_some();
    (!says).then(span::current).flatten()
}

fn filled(event: &Event<'_>, now: SystemTime, host: &str) -> Record {
    let mut fields = Fields::begin(*event.metadata().level(), now, host);
    if let Some(trace) = implied_trace(event) {
        fields.trace(trace);
    }
    event.record(&mut fields);
    fields.into_record()
}

fn severity(level: Level) -> Severity {
    match level {
        Level::TRACE => (1, "TRACE"),
        Level::DEBUG => (5, "DEBUG"),
        Level::INFO => (9, "INFO"),
        Level::WARN => (13, "WARN"),
        Level::ERROR => (17, "ERROR"),
    }
}

/// The fields of an event, which are added to a record.
struct Fields {
    record: Record,
    trace_id: Option<TraceId>,
    span_id: Option<SpanId>,
}

impl Fields {
    fn begin(level: Level, now: SystemTime, host: &str) -> Self {
        let mut record = Record::new(now, severity(level));
        record.attribute("host", host);
        Self {
            record,
            trace_id: None,
            span_id: None,
        }
    }

    fn add(&mut self, name: &'static str, value: Value<'_>) {
        match (value, name) {
            (_, "message") => return self.record.body(value),
            (Value::Text(id), "trace_id") => self.trace_id = TraceId::from_hex(id),
            (Value::Text(id), "span_id") => self.span_id = SpanId::from_hex(id),
            _ => {}
        }
        self.record.attribute(name, value);
    }

    /// Sets the trace context of the record as well, which is the place that backends use.
    fn into_record(mut self) -> Record {
        if let (Some(trace_id), Some(span_id)) = (self.trace_id, self.span_id) {
            self.record.position(trace_id, span_id);
        }
        self.record
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.whole(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), format!("{value:?}").as_str().into());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use opentelemetry_proto::tonic::{
        common::v1::any_value::Value as Any,
        logs::v1::{LogRecord, SeverityNumber},
    };
    use parking_lot::Mutex;
    use proptest::prelude::*;
    use prost::Message as _;
    use shortener_testing::otlp::hex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::event::testing::{KIND, samples};

    const HOST: &str = "pod-1";

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1)
    }

    /// Reads a record as another implementation of OTLP does.
    fn read(record: &Record) -> LogRecord {
        LogRecord::decode(record.message().bytes()).unwrap()
    }

    /// Keeps the record instead of sending it.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Option<LogRecord>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let record = filled(event, now(), HOST);
            *self.0.lock() = Some(read(&record));
        }
    }

    fn logged(emit: impl FnOnce()) -> LogRecord {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::registry().with(kept.clone());
        tracing::subscriber::with_default(subscriber, emit);
        kept.0.lock().take().unwrap()
    }

    fn attribute(record: &LogRecord, name: &str) -> Option<Any> {
        let mut found = record.attributes.iter().filter(|found| found.key == name);
        let value = found.next().map(|found| found.value.clone().unwrap().value);
        assert!(found.next().is_none(), "{name} occurs twice");
        value.flatten()
    }

    fn text(text: &str) -> Any {
        Any::StringValue(text.to_owned())
    }

    #[test]
    fn the_body_is_exactly_the_event_name_and_every_field_is_an_attribute() {
        let record = logged(|| {
            tracing::warn!(
                event = "request",
                http.response.status_code = 302,
                duration = 0.25,
                huge = u64::MAX,
                ok = true,
                missing = None::<&str>,
                "request"
            );
        });
        let body = record.body.clone().unwrap().value;
        assert_eq!(body, Some(text("request")));
        assert_eq!(record.severity_text, "WARN");
        assert_eq!(record.severity_number(), SeverityNumber::Warn);
        assert!(record.time_unix_nano > 0 && record.observed_time_unix_nano > 0);
        assert!(record.trace_id.is_empty() && record.span_id.is_empty());
        for (name, value) in [
            ("event", Some(text("request"))),
            ("host", Some(text(HOST))),
            ("http.response.status_code", Some(Any::IntValue(302))),
            ("duration", Some(Any::DoubleValue(0.25))),
            ("huge", Some(text("18446744073709551615"))),
            ("ok", Some(Any::BoolValue(true))),
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
        assert_eq!(hex(&record.trace_id), trace);
        assert_eq!(hex(&record.span_id), span);
        assert_eq!(attribute(&record, "trace_id"), Some(text(trace)));
        assert_eq!(attribute(&record, "span_id"), Some(text(span)));
    }

    #[tokio::test]
    async fn a_record_made_during_work_leads_to_its_trace() {
        let trace = TraceContext::continuing(None);
        let work = span::Tracer::default().start(trace, span::SpanKind::Consumer, "work");
        let warn = async { logged(|| tracing::warn!(event = "odd", "odd")) };
        let record = span::in_span(&work, warn).await;
        let id = trace.trace_id.to_string();
        assert_eq!(hex(&record.trace_id), id);
        assert_eq!(hex(&record.span_id), trace.span_id.to_string());
        assert_eq!(attribute(&record, "trace_id"), Some(text(&id)));
    }

    proptest! {
        #[test]
        fn a_record_equals_the_one_that_tracing_makes(sample in samples()) {
            let record = direct::filled(KIND, &sample, now(), HOST);
            prop_assert_eq!(read(&record), logged(|| sample.log()));
        }
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
}
