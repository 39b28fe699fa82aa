//! Log events as OTLP log records: the body is exactly the message of the event, and every field is an attribute.
//!
//! The appender of OpenTelemetry for `tracing` is not used: it sends the place in the source as the name of the event, and
//! it adds neither the host nor a trace that an event names itself.

use std::{fmt, sync::Arc, time::SystemTime};

use opentelemetry::{
    SpanId, TraceFlags, TraceId,
    logs::{AnyValue, LogRecord as _, Logger as _, Severity},
};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::{span, trace::TraceContext};

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
    logger: SdkLogger,
    host: Arc<str>,
}

impl LogRecords {
    /// Returns a layer that exports on behalf of this replica.
    pub(crate) fn new(logger: SdkLogger, host: &str) -> Self {
        Self {
            logger,
            host: Arc::from(host),
        }
    }

    fn record(&self, event: &Event<'_>) -> SdkLogRecord {
        let (metadata, now) = (event.metadata(), SystemTime::now());
        let mut record = self.logger.create_log_record();
        record.set_timestamp(now);
        record.set_observed_timestamp(now);
        record.set_severity_number(severity(*metadata.level()));
        record.set_severity_text(metadata.level().as_str());
        // It becomes the name of the instrumentation scope.
        record.set_target(metadata.target());
        record.add_attribute("host", AnyValue::String(Arc::clone(&self.host).into()));
        let mut fields = Fields {
            record,
            trace_id: None,
            span_id: None,
        };
        if let Some(trace) = implied_trace(event) {
            fields.text("trace_id", trace.trace_id.to_string());
            fields.text("span_id", trace.span_id.to_string());
        }
        event.record(&mut fields);
        fields.into_record()
    }
}

impl<S: Subscriber> Layer<S> for LogRecords {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !is_carrier(event.metadata().target()) {
            self.logger.emit(self.record(event));
        }
    }
}

fn is_carrier(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or(target);
    CARRIERS.contains(&name)
}

/// Returns the current trace context, or `None` if the event has a `trace_id` field of its own.
pub fn implied_trace(event: &Event<'_>) -> Option<TraceContext> {
    let says = event.metadata().fields().field("trace_id").is_some();
    (!says).then(span::current).flatten()
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
    fn text(&mut self, name: &'static str, value: String) {
        match name {
            "trace_id" => self.trace_id = TraceId::from_hex(&value).ok(),
            "span_id" => self.span_id = SpanId::from_hex(&value).ok(),
            _ => {}
        }
        self.add(name, value);
    }

    fn add(&mut self, name: &'static str, value: impl Into<AnyValue>) {
        match name {
            "message" => self.record.set_body(value.into()),
            name => self.record.add_attribute(name, value),
        }
    }

    /// Sets the trace context of the record as well, which is the place that backends use.
    fn into_record(mut self) -> SdkLogRecord {
        if let (Some(trace_id), Some(span_id)) = (self.trace_id, self.span_id) {
            self.record
                .set_trace_context(trace_id, span_id, Some(TraceFlags::SAMPLED));
        }
        self.record
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // OTLP has signed integers only.
        match i64::try_from(value) {
            Ok(value) => self.add(field.name(), value),
            Err(_) => self.add(field.name(), value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field.name(), format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests;
