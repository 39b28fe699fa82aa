//! The log of events whose fields are known in advance: lines without the detour over `tracing`.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, SystemTime},
};

use tracing::Level;

use super::{
    Logging,
    line::{self, Line},
    lines::{Flush, Lines},
};
use crate::{
    budget::Budget,
    event::{Event, Kind},
    telemetry::LogRecords,
};

/// The log of events of one kind; cheap to clone. The default one writes nothing.
#[derive(Clone, Default)]
pub struct EventLog(Option<Arc<Sinks>>);

struct Sinks {
    kind: Kind,
    /// One for each level that the filter lets pass.
    heads: Vec<Head>,
    lines: Lines,
    records: Option<LogRecords>,
    _flush: Option<Flush>,
}

/// The members that all lines of one level have in common.
struct Head {
    level: Level,
    members: Vec<u8>,
}

impl EventLog {
    /// Returns the log of such events, as a part of the log of this process.
    pub(super) fn new(kind: Kind, logging: &Logging) -> Self {
        Self(Some(Arc::new(Sinks {
            kind,
            heads: heads(kind, &logging.host),
            lines: logging.lines.clone(),
            records: logging.records.clone(),
            _flush: None,
        })))
    }

    /// Returns a log of such events alone that goes to this writer, for comparisons.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn to(kind: Kind, host: &str, writer: impl Write + Send + 'static) -> io::Result<Self> {
        let memory = Budget::new(1024 * 1024);
        let (lines, flush) = Lines::start(writer, Duration::ZERO, memory)?;
        Ok(Self(Some(Arc::new(Sinks {
            kind,
            heads: heads(kind, host),
            lines,
            records: None,
            _flush: Some(flush),
        }))))
    }

    /// Writes an event, unless the filter leaves out those of its level.
    pub fn write(&self, event: &impl Event) {
        let Some(sinks) = &self.0 else { return };
        let level = event.level();
        let Some(head) = sinks.heads.iter().find(|head| head.level == level) else {
            return;
        };
        let now = SystemTime::now();
        let fill = |line: &mut Line| head.fill(line, event);
        line::build(now, fill, |line| sinks.lines.append(line));
        if let Some(records) = &sinks.records {
            records.export(sinks.kind, now, event);
        }
    }
}

/// Returns the heads of the levels that the filter lets pass.
fn heads(kind: Kind, host: &str) -> Vec<Head> {
    let levels = [
        Level::ERROR,
        Level::WARN,
        Level::INFO,
        Level::DEBUG,
        Level::TRACE,
    ];
    let enabled = levels.into_iter().filter(|level| (kind.is_enabled)(*level));
    let head = |level| Head::new(kind, level, host);
    enabled.map(head).collect()
}

impl Head {
    fn new(kind: Kind, level: Level, host: &str) -> Self {
        let mut line = Line::default();
        line.member("level", level.as_str());
        line.member("host", host);
        line.member("target", kind.target);
        line.member("body", kind.name);
        line.member("event", kind.name);
        Self {
            level,
            members: line.into_members(),
        }
    }

    fn fill(&self, line: &mut Line, event: &impl Event) {
        line.members(&self.members);
        event.record(line);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use proptest::prelude::*;
    use shortener_testing::pipe::Pipe;
    use tracing::Subscriber;
    use tracing_subscriber::{
        EnvFilter, Layer,
        layer::{Context, SubscriberExt},
    };

    use super::*;
    use crate::event::testing::{KIND, Sample, samples};

    const HOST: &str = "pod-\"1\"";

    /// A layer that builds lines of one time, and keeps them.
    #[derive(Clone)]
    struct Kept {
        now: SystemTime,
        lines: Arc<Mutex<Vec<u8>>>,
    }

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            let fill = |line: &mut Line| super::super::record(line, event, HOST);
            line::build(self.now, fill, |line| {
                self.lines.lock().unwrap().extend_from_slice(line);
            });
        }
    }

    /// Returns the line that `tracing` makes of an event.
    fn traced(sample: &Sample, now: SystemTime) -> String {
        let kept = Kept {
            now,
            lines: Arc::default(),
        };
        let subscriber = tracing_subscriber::registry().with(kept.clone());
        tracing::subscriber::with_default(subscriber, || sample.log());
        String::from_utf8(kept.lines.lock().unwrap().clone()).unwrap()
    }

    /// Returns the line that is written without `tracing`.
    fn direct(sample: &Sample, now: SystemTime) -> String {
        let head = Head::new(KIND, sample.level(), HOST);
        let mut text = Vec::new();
        let fill = |line: &mut Line| head.fill(line, sample);
        line::build(now, fill, |line| text.extend_from_slice(line));
        String::from_utf8(text).unwrap()
    }

    proptest! {
        #[test]
        fn a_line_is_byte_for_byte_the_one_that_tracing_makes(sample in samples()) {
            let now = SystemTime::now();
            prop_assert_eq!(direct(&sample, now), traced(&sample, now));
        }
    }

    #[test]
    fn events_are_written_one_after_the_other_with_the_fields_of_their_kind() {
        let (pipe, written) = mpsc::channel();
        let log = EventLog::to(KIND, HOST, Pipe(pipe)).unwrap();
        for status in [302, 503] {
            log.write(&sample(status));
        }
        drop(log);
        let written: Vec<Vec<u8>> = written.iter().collect();
        let text = String::from_utf8(written.concat()).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [redirect, failure] = &lines[..] else {
            panic!("{text}")
        };
        for (line, level, status) in [(redirect, "INFO", 302), (failure, "ERROR", 503)] {
            assert_eq!(line["level"], level);
            assert_eq!(line["http.response.status_code"], status);
            assert_eq!(
                (&line["body"], &line["event"]),
                (&"sample".into(), &"sample".into())
            );
            assert_eq!(
                (&line["host"], &line["target"]),
                (&HOST.into(), &KIND.target.into())
            );
        }
    }

    fn sample(status: u16) -> Sample {
        Sample {
            fails: status >= 500,
            trace: crate::trace::TraceContext::root(),
            status,
            path: "/".to_owned(),
            client: [127, 0, 0, 1].into(),
            name: None,
            duration: 0.25,
            reason: None,
        }
    }

    #[test]
    fn the_filter_decides_for_each_level() {
        let kind = Kind {
            is_enabled: |level| match level {
                Level::ERROR => tracing::event_enabled!(target: KIND.target, Level::ERROR),
                Level::INFO => tracing::event_enabled!(target: KIND.target, Level::INFO),
                _ => false,
            },
            ..KIND
        };
        for (filter, expected) in [
            ("info,lapin=error", &["ERROR", "INFO"][..]),
            ("error", &["ERROR"]),
            ("info,a::place=error", &["ERROR"]),
            ("off,a=info", &["ERROR", "INFO"]),
            ("info,a=off", &[]),
        ] {
            let subscriber = tracing_subscriber::registry().with(EnvFilter::new(filter));
            let found = tracing::subscriber::with_default(subscriber, || heads(kind, HOST));
            let found: Vec<_> = found.iter().map(|head| head.level.as_str()).collect();
            assert_eq!(found, expected, "{filter}");
        }
    }
}
