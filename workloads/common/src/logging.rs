//! Structured logs on standard output: one JSON object per event.
//!
//! `body` is the message of the event. Every other field is a member of its own, so that a log pipeline filters on
//! fields and never on text.

mod batches;
mod room;

use std::{
    fmt,
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter, Layer, layer::Context, layer::SubscriberExt, util::SubscriberInitExt,
};

use self::{
    batches::Batches,
    room::{LINES, Room},
};
use crate::{
    memory::{Buffer, Memory},
    telemetry::{LogRecords, implied_trace},
};

/// The time for which lines are collected after a write.
const GATHER: Duration = Duration::from_millis(5);

/// The running log; dropping it writes the buffered lines.
pub struct Logging {
    room: Room,
    _flush_on_drop: WorkerGuard,
}

impl Logging {
    /// Returns the metric of the lines that were dropped because standard output was not read.
    #[must_use]
    pub fn dropped_lines(&self) -> DroppedLines {
        DroppedLines(self.room.clone())
    }
}

/// The metric `log_dropped_lines_total`.
#[derive(Debug)]
pub struct DroppedLines(Room);

impl Collector for DroppedLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let dropped = ConstCounter::new(self.0.dropped());
        let help = "Log lines dropped because standard output was not read";
        let metric =
            encoder.encode_descriptor("log_dropped_lines", help, None, MetricType::Counter)?;
        dropped.encode(metric)
    }
}

/// Writes every event to standard output as JSON, with the field `host` in each line, and to the collector if
/// `records` is given. Lines that wait fit into this memory.
///
/// # Errors
/// Fails if `filter` is not a valid `RUST_LOG` directive, or if a subscriber is already installed.
pub fn init(
    filter: &str,
    host: &str,
    records: Option<LogRecords>,
    memory: &Memory,
) -> Result<Logging, Box<dyn std::error::Error + Send + Sync>> {
    // A request never waits for the reader of the log: the line is dropped and counted instead.
    let room = Room::new(memory.budget(Buffer::LogLines));
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES)
        .finish(Batches::new(io::stdout(), GATHER, room.clone()));
    let writer = Output {
        writer,
        room: room.clone(),
    };
    tracing_subscriber::registry()
        .with(EnvFilter::try_new(filter)?)
        .with(JsonLines {
            writer,
            host: Arc::from(host),
        })
        .with(records)
        .try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(event = "panic", code.location = location, error.message = %panic, "panic");
    }));
    Ok(Logging {
        room,
        _flush_on_drop: guard,
    })
}

/// Standard output, with the room for its lines.
struct Output {
    writer: NonBlocking,
    room: Room,
}

struct JsonLines<W> {
    writer: W,
    host: Arc<str>,
}

impl<S: Subscriber> Layer<S> for JsonLines<Output> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = render(event, &self.host);
        let Output { writer, room } = &self.writer;
        if room.enter(line.len()) {
            // An error here has no place to be reported, because standard output is gone.
            let _ = writer.clone().write_all(&line);
        }
    }
}

fn render(event: &Event<'_>, host: &str) -> Vec<u8> {
    let mut line = Line::new();
    line.text("timestamp", &jiff::Timestamp::now().to_string());
    line.text("level", event.metadata().level().as_str());
    line.text("host", host);
    line.text("target", event.metadata().target());
    event.record(&mut line);
    if let Some(trace) = implied_trace(event) {
        line.text("trace_id", &trace.trace_id.to_string());
        line.text("span_id", &trace.span_id.to_string());
    }
    line.finish()
}

/// A JSON object under construction.
struct Line(Vec<u8>);

impl Line {
    fn new() -> Self {
        let mut buffer = Vec::with_capacity(512);
        buffer.push(b'{');
        Self(buffer)
    }

    fn key(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.quoted(name);
        self.0.push(b':');
    }

    /// Appends a JSON string. Writing to memory cannot fail.
    fn quoted(&mut self, value: &str) {
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    fn text(&mut self, name: &str, value: &str) {
        self.key(name);
        self.quoted(value);
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

/// Returns the key of a field; the message of an event becomes `body`.
fn key_of(field: &Field) -> &'static str {
    if field.name() == "message" {
        "body"
    } else {
        field.name()
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.key(key_of(field));
        let _ = serde_json::to_writer(&mut self.0, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.key(key_of(field));
        let _ = write!(self.0, "{value}");
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.key(key_of(field));
        let _ = write!(self.0, "{value}");
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.key(key_of(field));
        let _ = write!(self.0, "{value}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(key_of(field), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(key_of(field), &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::Value;

    use super::*;
    use crate::{
        telemetry::span::{SpanKind, Tracer, in_span},
        trace::TraceContext,
    };

    /// Collects lines in memory instead of printing them.
    impl<S: Subscriber> Layer<S> for JsonLines<Arc<Mutex<Vec<u8>>>> {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.writer
                .lock()
                .unwrap()
                .extend(render(event, &self.host));
        }
    }

    fn logged(emit: impl FnOnce()) -> Value {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let layer = JsonLines {
            writer: Arc::clone(&lines),
            host: Arc::from("pod-1"),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), emit);
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text.matches('\n').count(),
            1,
            "one event is one line: {text}"
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_body_is_exactly_the_event_name_and_fields_stand_beside_it() {
        let line = logged(|| {
            tracing::info!(event = "request", trace_id = %"0af7", http.response.status_code = 302, duration = 0.25, ok = true, "request");
        });
        assert_eq!(line["body"], "request");
        assert_eq!(line["event"], "request");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["host"], "pod-1");
        assert_eq!(line["trace_id"], "0af7");
        assert_eq!(line["http.response.status_code"], 302);
        assert_eq!(line["duration"], 0.25);
        assert_eq!(line["ok"], true);
        assert!(
            line["timestamp"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .is_ok()
        );
    }

    #[tokio::test]
    async fn what_is_logged_during_work_names_its_trace_unless_it_names_another() {
        let trace = TraceContext::continuing(None);
        let work = Tracer::default().start(trace, SpanKind::Server, "work");
        let (implied, explicit) = in_span(&work, async {
            let implied = logged(|| tracing::warn!(event = "odd", "odd"));
            (implied, logged(|| tracing::info!(trace_id = "0af7", "odd")))
        })
        .await;
        assert_eq!(implied["trace_id"], trace.trace_id.to_string());
        assert_eq!(implied["span_id"], trace.span_id.to_string());
        assert_eq!(explicit["trace_id"], "0af7");
        assert_eq!(explicit["span_id"], Value::Null);
        assert_eq!(
            logged(|| tracing::info!("odd"))["trace_id"],
            Value::Null,
            "no span is current"
        );
    }

    #[test]
    fn hostile_text_stays_inside_its_field() {
        let hostile = "a\"},\n{\"body\":\"forged\u{2028}\u{0}";
        let line = logged(|| tracing::warn!(url.path = hostile, "request"));
        assert_eq!(line["url.path"], hostile);
        assert_eq!(line["body"], "request");
    }

    #[test]
    fn a_number_that_json_cannot_show_is_null() {
        assert_eq!(
            logged(|| tracing::info!(ratio = f64::NAN, "odd"))["ratio"],
            Value::Null
        );
    }
}
