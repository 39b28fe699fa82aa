//! Structured logs on standard output: one JSON object per event.
//!
//! `body` is the message of the event. Every other field is a member of its own, so that a log pipeline filters on
//! fields and never on text.

mod clock;
mod events;
mod line;
mod lines;
mod room;

use std::{
    fmt, io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer, layer::Context, layer::SubscriberExt, util::SubscriberInitExt,
};

pub use self::events::EventLog;
use self::{
    line::Line,
    lines::{Flush, Lines},
    room::Room,
};
use crate::{
    event::{Fields, Kind},
    memory::{Buffer, Memory},
    telemetry::{LogRecords, implied_trace},
};

/// The time for which lines are collected after a write.
const GATHER: Duration = Duration::from_millis(5);

/// The running log; dropping it writes the buffered lines.
pub struct Logging {
    lines: Lines,
    host: Arc<str>,
    records: Option<LogRecords>,
    _flush_on_drop: Flush,
}

impl Logging {
    /// Returns the metric of the lines that were dropped because standard output was not read.
    #[must_use]
    pub fn dropped_lines(&self) -> DroppedLines {
        DroppedLines(self.lines.room().clone())
    }

    /// Returns the log of events of this kind.
    #[must_use]
    pub fn events(&self, kind: Kind) -> EventLog {
        EventLog::new(kind, self)
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
    let memory = memory.budget(Buffer::LogLines);
    let (lines, flush) = Lines::start(io::stdout(), GATHER, memory)?;
    let host: Arc<str> = Arc::from(host);
    tracing_subscriber::registry()
        .with(EnvFilter::try_new(filter)?)
        .with(JsonLines {
            lines: lines.clone(),
            host: Arc::clone(&host),
        })
        .with(records.clone())
        .try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(event = "panic", code.location = location, error.message = %panic, "panic");
    }));
    Ok(Logging {
        lines,
        host,
        records,
        _flush_on_drop: flush,
    })
}

/// The layer that writes events as lines.
struct JsonLines<W> {
    lines: W,
    host: Arc<str>,
}

impl<S: Subscriber> Layer<S> for JsonLines<Lines> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let fill = |line: &mut Line| record(line, event, &self.host);
        line::build(SystemTime::now(), fill, |line| self.lines.append(line));
    }
}

fn record(line: &mut Line, event: &Event<'_>, host: &str) {
    line.member("level", event.metadata().level().as_str());
    line.member("host", host);
    line.member("target", event.metadata().target());
    event.record(line);
    if let Some(trace) = implied_trace(event) {
        line.trace(trace);
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
            let fill = |line: &mut Line| record(line, event, &self.host);
            line::build(SystemTime::now(), fill, |line| {
                self.lines.lock().unwrap().extend_from_slice(line);
            });
        }
    }

    fn logged(emit: impl FnOnce()) -> Value {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let layer = JsonLines {
            lines: Arc::clone(&lines),
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
