//! The log line of a request.

use std::time::Duration;

use http::StatusCode;
use shortener_common::event::{Event, Fields, Kind};
use tracing::Level;

use super::facts::Facts;
use crate::metrics::method_label;

/// The target of the lines, which stays the same wherever the code stands: settings of `RUST_LOG` name it.
const TARGET: &str = "shortener_app::observe::facts";

/// The constant part of the lines. Their body is exactly `request`.
pub const REQUESTS: Kind = Kind {
    name: "request",
    target: TARGET,
    is_enabled,
};

fn is_enabled(level: Level) -> bool {
    match level {
        Level::ERROR => tracing::event_enabled!(target: TARGET, Level::ERROR),
        Level::INFO => tracing::event_enabled!(target: TARGET, Level::INFO),
        _ => false,
    }
}

/// The log line of a request that was answered.
pub(super) struct Line<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) status: StatusCode,
    pub(super) duration: Duration,
    /// The problem type, and the reason of a server error.
    pub(super) failure: Option<(&'static str, Option<&'a str>)>,
}

impl Event for Line<'_> {
    fn level(&self) -> Level {
        if self.status.is_server_error() {
            Level::ERROR
        } else {
            Level::INFO
        }
    }

    fn record(&self, fields: &mut impl Fields) {
        let facts = self.facts;
        let (kind, reason) = self.failure.unzip();
        fields.trace(facts.trace);
        fields.text("http.request.method", method_label(facts.method));
        fields.text("http.route", facts.route.as_str());
        fields.whole("http.response.status_code", self.status.as_u16().into());
        fields.text("url.path", facts.path());
        fields.address("client.address", facts.client);
        fields.text_if_any("auth.client", facts.identity.name());
        fields.fraction("duration", self.duration.as_secs_f64());
        fields.text_if_any("error.type", kind);
        fields.text_if_any("error.message", reason.flatten());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http::Method;
    use shortener_common::logging::EventLog;
    use shortener_testing::pipe::Pipe;

    use super::{super::facts::tests::facts, *};

    /// Returns the line behind its time.
    fn written(line: &Line<'_>) -> String {
        let kind = Kind {
            is_enabled: |_| true,
            ..REQUESTS
        };
        let (pipe, written) = mpsc::channel();
        let log = EventLog::to(kind, "pod-1", Pipe(pipe)).unwrap();
        log.write(line);
        drop(log);
        let written: Vec<Vec<u8>> = written.iter().collect();
        let text = String::from_utf8(written.concat()).unwrap();
        let (_, rest) = text.split_once("Z\",").unwrap();
        rest.to_owned()
    }

    #[test]
    fn a_line_has_the_members_that_log_pipelines_know_in_their_order() {
        let uri = "/to\"\u{fc}?query=secret".parse().unwrap();
        let method = Method::HEAD;
        let facts = facts(&method, &uri);
        let (trace_id, span_id) = (facts.trace.trace_id, facts.trace.span_id);
        let members = format!(
            "\"host\":\"pod-1\",\"target\":\"shortener_app::observe::facts\",\"body\":\"request\",\
             \"event\":\"request\",\"trace_id\":\"{trace_id}\",\"span_id\":\"{span_id}\",\
             \"http.request.method\":\"HEAD\",\"http.route\":\"unmatched\",\"http.response.status_code\""
        );
        for (status, failure, level, end) in [
            (StatusCode::FOUND, None, "INFO", ""),
            (
                StatusCode::NOT_FOUND,
                Some(("not-found", None)),
                "INFO",
                ",\"error.type\":\"not-found\"",
            ),
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                Some(("internal", Some("a\nb"))),
                "ERROR",
                ",\"error.type\":\"internal\",\"error.message\":\"a\\nb\"",
            ),
        ] {
            let line = Line {
                facts: &facts,
                status,
                duration: Duration::from_millis(250),
                failure,
            };
            let status = status.as_u16();
            assert_eq!(
                written(&line),
                format!(
                    "\"level\":\"{level}\",{members}:{status},\"url.path\":\"/to\\\"\u{fc}\",\
                     \"client.address\":\"127.0.0.1\",\"duration\":0.25{end}}}\n"
                )
            );
        }
    }
}
