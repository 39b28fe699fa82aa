//! The process's logger: one JSON object per line on standard output, filtered by `RUST_LOG` (default `info`).

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    filter::LevelFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields, SubscriberBuilder,
        format::{Format, Json, JsonFields, Writer},
    },
    registry::LookupSpan,
};

use crate::telemetry::span;

/// Installs the process's logger. A second call has no effect.
pub fn init() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    // The only error is that a logger is already installed, and that one stays in use.
    let _ = builder().with_env_filter(filter).try_init();
}

fn builder() -> SubscriberBuilder<JsonFields, WithTrace<Format<Json>>> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .map_event_format(WithTrace)
}

/// A format of JSON objects that adds the ids of the current trace and span, so that a line leads to its trace.
struct WithTrace<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithTrace<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(place) = span::current() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        match line.trim_end().strip_suffix('}') {
            Some(object) => writeln!(
                writer,
                r#"{object},"trace_id":"{}","span_id":"{}"}}"#,
                place.trace_id, place.span_id
            ),
            None => writer.write_str(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use serde_json::Value;

    use super::*;
    use crate::testing::collector::FakeCollector;

    /// A standard output that is kept.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_line_of_traced_work_leads_to_its_trace_and_no_other_has_ids() {
        let output = Output::default();
        let kept = output.clone();
        let subscriber = builder().with_writer(move || kept.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let telemetry = FakeCollector::default().telemetry();
        let whole = telemetry.tracer().root("whole").unwrap();
        tracing::info!(odd = "}", "before");
        let place = span::in_span(&whole, async {
            tracing::info!(odd = "}", "within");
            span::current().unwrap()
        });
        let place = place.await;
        let text = String::from_utf8(output.0.lock().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [before, within] = &lines[..] else {
            panic!("{text}")
        };
        assert_eq!(before["message"], "before");
        assert_eq!(before["trace_id"], Value::Null);
        assert_eq!(within["message"], "within");
        assert_eq!(within["odd"], "}");
        assert_eq!(within["trace_id"], place.trace_id.to_string());
        assert_eq!(within["span_id"], place.span_id.to_string());
    }
}
