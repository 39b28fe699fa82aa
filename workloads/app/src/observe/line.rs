//! The log line of a request.

use std::time::Duration;

use http::StatusCode;

use super::facts::RequestFacts;
use crate::metrics::method_label;

/// The target of the lines, which stays the same wherever the code stands: settings of `RUST_LOG` name it.
const TARGET: &str = "shortener_app::observe::facts";

/// Writes the log line of a request that has ended. Its body is exactly `request`. `failure` is the problem type, and the
/// reason of a server error.
pub(super) fn log(
    facts: &RequestFacts<'_>,
    status: StatusCode,
    duration: Duration,
    failure: Option<(&'static str, Option<&str>)>,
) {
    let (kind, reason) = failure.unzip();
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                target: TARGET,
                event = "request",
                trace_id = %facts.trace.trace_id,
                span_id = %facts.trace.span_id,
                http.request.method = method_label(facts.method),
                http.route = facts.route.as_str(),
                http.response.status_code = status.as_u16(),
                url.path = facts.path(),
                client.address = facts.shown_client.map(display),
                auth.client = facts.client_name(),
                duration = duration.as_secs_f64(),
                error.type = kind,
                error.message = reason.flatten(),
                "request"
            )
        };
    }
    if status.is_server_error() {
        line!(error);
    } else {
        line!(info);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http::Method;
    use shortener_common::logging::JsonLines;
    use shortener_testing::pipe::Pipe;
    use tracing_subscriber::layer::SubscriberExt;

    use super::{super::facts::tests::facts, *};

    /// Returns the line behind its time.
    fn written(line: impl FnOnce()) -> String {
        let (pipe, written) = mpsc::channel();
        let lines = JsonLines::new("pod-1", move || Pipe(pipe.clone()));
        let log = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(log, line);
        let text = String::from_utf8(written.iter().flatten().collect()).unwrap();
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
            let line = || log(&facts, status, Duration::from_millis(250), failure);
            let line = written(line);
            let status = status.as_u16();
            assert_eq!(
                line,
                format!(
                    "\"level\":\"{level}\",{members}:{status},\"url.path\":\"/to\\\"\u{fc}\",\
                     \"client.address\":\"127.0.0.1\",\"duration\":0.25{end}}}\n"
                )
            );
        }
    }
}
