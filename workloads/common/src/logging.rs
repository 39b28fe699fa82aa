//! Structured logs on standard output: one JSON object per event.
//!
//! `body` is the message of the event. Every other field is a member of its own, so that a log pipeline filters on
//! fields and never on text.

use std::{
    fmt,
    io::{self, BufWriter, Write},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use serde::Serialize;
use shortener_telemetry::implied_trace;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter, Layer,
    fmt::MakeWriter,
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};

use crate::{memory::Memory, telemetry::LogRecords};

/// The memory of a line that waits, in bytes: a line of a request has about 400.
const LINE: usize = 512;
/// The maximum number of lines that wait, however much memory there is.
const WAITING: usize = 64 * 1024;
/// The size from which on lines are written, if more of them wait.
const TOGETHER: usize = 64 * 1024;
/// The pause after each write, in which lines gather. Without it the thread of the log sleeps again after each line, and
/// waking it up costs a request more than all else about its line.
const PAUSE: Duration = Duration::from_millis(2);
/// The time for which the end of the process waits for a reader of standard output.
const END: Duration = Duration::from_secs(1);

/// The running log; dropping it writes the lines that wait, if their reader takes them soon.
pub struct Logging {
    dropped: ErrorCounter,
    writing: Option<WorkerGuard>,
}

impl Logging {
    /// Returns the metric of the lines that were dropped because standard output was not read.
    pub fn dropped_lines(&self) -> DroppedLines {
        DroppedLines(self.dropped.clone())
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        // The guard prints to standard output if the lines do not end, and that may wait for ever.
        let (writing, (ended, end)) = (self.writing.take(), mpsc::sync_channel(1));
        thread::spawn(move || {
            drop(writing);
            let _ = ended.send(());
        });
        let _ = end.recv_timeout(END);
    }
}

/// A writer that pauses after each flush. `tracing-appender` flushes when no line waits.
struct Gathered<W>(W);

impl<W: Write> Write for Gathered<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.write(lines)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        thread::sleep(PAUSE);
        Ok(())
    }
}

/// The metric `log_dropped_lines_total`.
#[derive(Debug)]
pub struct DroppedLines(ErrorCounter);

impl Collector for DroppedLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let dropped = ConstCounter::new(self.0.dropped_lines() as u64);
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
    let lines = memory.log_lines / LINE;
    // A request never waits for the reader of the log: the line is dropped and counted instead.
    let (writer, writing) = NonBlockingBuilder::default()
        .buffered_lines_limit(lines.min(WAITING))
        .thread_name("log")
        .finish(Gathered(BufWriter::with_capacity(TOGETHER, io::stdout())));
    let dropped = writer.error_counter();
    tracing_subscriber::registry()
        .with(EnvFilter::try_new(filter)?)
        .with(JsonLines::new(host, writer))
        .with(records)
        .try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(event = "panic", code.location = location, error.message = %panic, "panic");
    }));
    Ok(Logging {
        dropped,
        writing: Some(writing),
    })
}

/// A log layer that writes events as lines.
pub struct JsonLines<W> {
    host: Arc<str>,
    writer: W,
}

impl<W> JsonLines<W> {
    /// Returns a layer that writes each line at once, on behalf of this replica.
    pub fn new(host: &str, writer: W) -> Self {
        Self {
            host: Arc::from(host),
            writer,
        }
    }

    fn line(&self, event: &Event<'_>) -> Vec<u8> {
        let mut line = Line(Vec::with_capacity(LINE));
        line.0.extend_from_slice(b"{\"timestamp\":");
        line.json(&Timestamp::now().to_string());
        line.member("level", event.metadata().level().as_str());
        line.member("host", &*self.host);
        line.member("target", event.metadata().target());
        event.record(&mut line);
        if let Some(trace) = implied_trace(event) {
            line.member("trace_id", &trace.trace_id.to_string());
            line.member("span_id", &trace.span_id.to_string());
        }
        line.0.extend_from_slice(b"}\n");
        line.0
    }
}

impl<S: Subscriber, W: for<'a> MakeWriter<'a> + 'static> Layer<S> for JsonLines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // An error has no place to be reported, because standard output is gone.
        let _ = self.writer.make_writer().write_all(&self.line(event));
    }
}

/// A JSON object under construction.
struct Line(Vec<u8>);

impl Line {
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.0.push(b',');
        self.json(name);
        self.0.push(b':');
        self.json(value);
    }

    /// Appends a value. Writing to memory cannot fail.
    fn json<T: Serialize + ?Sized>(&mut self, value: &T) {
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    /// Appends a field; the message of an event becomes `body`.
    fn field<T: Serialize + ?Sized>(&mut self, field: &Field, value: &T) {
        let name = match field.name() {
            "message" => "body",
            name => name,
        };
        self.member(name, value);
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.field(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::Value;
    use shortener_testing::pipe::Pipe;

    use super::*;
    use crate::{
        telemetry::span::{SpanKind, Tracer, in_span},
        trace::TraceContext,
    };

    fn logged(emit: impl FnOnce()) -> Value {
        let (pipe, lines) = mpsc::channel();
        let layer = JsonLines::new("pod-1", move || Pipe(pipe.clone()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), emit);
        let text = String::from_utf8(lines.iter().flatten().collect()).unwrap();
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
            tracing::info!(event = "request", trace_id = %"0af7", http.response.status_code = 302, duration = 0.25, ok = true, missing = None::<&str>, "request");
        });
        assert_eq!(line["body"], "request");
        assert_eq!(line["event"], "request");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["host"], "pod-1");
        assert_eq!(line["trace_id"], "0af7");
        assert_eq!(line["http.response.status_code"], 302);
        assert_eq!(line["duration"], 0.25);
        assert_eq!(line["ok"], true);
        assert!(line.get("missing").is_none(), "{line}");
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
