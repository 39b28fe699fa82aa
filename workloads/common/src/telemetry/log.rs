//! Log events as OTLP log records: the body is exactly the message of the event, and every field is an attribute.

mod direct;

use std::{fmt, sync::Arc, time::SystemTime};

use opentelemetry::{
    Key, SpanId, TraceFlags, TraceId,
    logs::{AnyValue, LogRecord, Logger, Severity},
};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::{queue::Queue, span};
use crate::{event::Fields as _, trace::TraceContext};

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
    records: Queue<SdkLogRecord>,
    /// Only creates records; they are sent through `records`.
    logger: SdkLogger,
    host: Arc<str>,
}

impl LogRecords {
    /// Returns a layer that sends through this queue, on behalf of this replica.
    pub(super) fn new(records: Queue<SdkLogRecord>, logger: SdkLogger, host: &str) -> Self {
        Self {
            records,
            logger,
            host: Arc::from(host),
        }
    }
}

impl<S: Subscriber> Layer<S> for LogRecords {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_carrier(event.metadata().target()) {
            return;
        }
        let record = self.logger.create_log_record();
        let record = filled(record, event, SystemTime::now(), &self.host);
        self.records.offer(record);
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

fn filled(
    record: SdkLogRecord,
    event: &Event<'_>,
    now: SystemTime,
    host: &Arc<str>,
) -> SdkLogRecord {
    let metadata = event.metadata();
    let mut fields = Fields::begin(record, metadata.target(), *metadata.level(), now, host);
    if let Some(trace) = implied_trace(event) {
        fields.trace(trace);
    }
    event.record(&mut fields);
    fields.into_record()
}

fn severity(level: Level) -> Severity {
    match level {
        Level::TRACE => Severity::Trace,
        Level::DEBUG => Severity::Debug,
        Level::INFO => Severity::Info,
        Level::WARN => Severity::Warn,
        Level::ERROR => Severity::Error,
    }
}

/// The fields of an event, which are added to a record.
struct Fields {
    record: SdkLogRecord,
    trace_id: Option<TraceId>,
    span_id: Option<SpanId>,
}

impl Fields {
    fn begin(
        mut record: SdkLogRecord,
        target: &'static str,
        level: Level,
        now: SystemTime,
        host: &Arc<str>,
    ) -> Self {
        record.set_timestamp(now);
        record.set_observed_timestamp(now);
        record.set_target(target);
        record.set_severity_text(level.as_str());
        record.set_severity_number(severity(level));
        record.add_attribute("host", AnyValue::String(Arc::clone(host).into()));
        Self {
            record,
            trace_id: None,
            span_id: None,
        }
    }

    fn add(&mut self, name: &'static str, value: AnyValue) {
        match (&value, name) {
            (_, "message") => return self.record.set_body(value),
            (AnyValue::String(id), "trace_id") => {
                self.trace_id = TraceId::from_hex(id.as_str()).ok()
            }
            (AnyValue::String(id), "span_id") => self.span_id = SpanId::from_hex(id.as_str()).ok(),
            _ => {}
        }
        self.record.add_attribute(Key::from_static_str(name), value);
    }

    /// Sets the trace context of the record as well, which is the place that backends use.
    fn into_record(mut self) -> SdkLogRecord {
        if let (Some(trace_id), Some(span_id)) = (self.trace_id, self.span_id) {
            let sampled = Some(TraceFlags::SAMPLED);
            self.record.set_trace_context(trace_id, span_id, sampled);
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
        self.add(field.name(), value.to_owned().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::logs::LoggerProvider;
    use opentelemetry_sdk::logs::SdkLoggerProvider;
    use proptest::prelude::*;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::event::testing::{KIND, samples};

    const HOST: &str = "pod-1";
    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    /// Keeps the record instead of sending it.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Option<SdkLogRecord>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let logger = SdkLoggerProvider::builder().build().logger("test");
            let record = logger.create_log_record();
            let record = filled(record, event, NOW, &Arc::from(HOST));
            *self.0.lock().unwrap() = Some(record);
        }
    }

    fn logged(emit: impl FnOnce()) -> SdkLogRecord {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::registry().with(kept.clone());
        tracing::subscriber::with_default(subscriber, emit);
        kept.0.lock().unwrap().take().unwrap()
    }

    fn attribute(record: &SdkLogRecord, name: &str) -> Option<AnyValue> {
        let mut found = record
            .attributes_iter()
            .filter(|(key, _)| key.as_str() == name);
        let value = found.next().map(|(_, value)| value.clone());
        assert!(found.next().is_none(), "{name} occurs twice");
        value
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
        assert_eq!(record.body(), Some(&"request".into()));
        assert_eq!(record.severity_text(), Some("WARN"));
        assert_eq!(record.severity_number(), Some(Severity::Warn));
        assert!(record.timestamp().is_some() && record.trace_context().is_none());
        for (name, value) in [
            ("event", Some("request".into())),
            ("host", Some(HOST.into())),
            ("http.response.status_code", Some(302.into())),
            ("duration", Some(0.25.into())),
            ("huge", Some("18446744073709551615".into())),
            ("ok", Some(true.into())),
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
        let context = record.trace_context().unwrap();
        assert_eq!(context.trace_id.to_string(), trace);
        assert_eq!(context.span_id.to_string(), span);
        assert_eq!(attribute(&record, "trace_id"), Some(trace.into()));
        assert_eq!(attribute(&record, "span_id"), Some(span.into()));
    }

    #[tokio::test]
    async fn a_record_made_during_work_leads_to_its_trace() {
        let trace = TraceContext::continuing(None);
        let work = span::Tracer::default().start(trace, span::SpanKind::Consumer, "work");
        let warn = async { logged(|| tracing::warn!(event = "odd", "odd")) };
        let record = span::in_span(&work, warn).await;
        let context = record.trace_context().unwrap();
        assert_eq!(context.trace_id, trace.trace_id.into());
        assert_eq!(context.span_id, trace.span_id.into());
        let id = trace.trace_id.to_string();
        assert_eq!(attribute(&record, "trace_id"), Some(id.into()));
    }

    proptest! {
        #[test]
        fn a_record_equals_the_one_that_tracing_makes(sample in samples()) {
            let logger = SdkLoggerProvider::builder().build().logger("test");
            let record = logger.create_log_record();
            let record = direct::filled(record, KIND, &sample, NOW, &Arc::from(HOST));
            prop_assert_eq!(record, logged(|| sample.log()));
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
