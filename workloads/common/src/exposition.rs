//! The text of a metrics endpoint: OpenMetrics with exemplars, or the classic Prometheus format without them.
//!
//! `prometheus-client` writes OpenMetrics only; the classic text is derived from it.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::{collections::HashMap, fmt};

use prometheus_client::{encoding::text, registry::Registry};

use crate::accept::quality;

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/openmetrics-text`, with exemplars.
    OpenMetrics,
    /// `text/plain; version=0.0.4`, without exemplars.
    Classic,
}

impl Format {
    /// Returns the format for an `Accept` header: OpenMetrics only if it is named and not ranked below plain text.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or_default();
        let (open_metrics, closeness) = quality(accept, "application", "openmetrics-text");
        let (classic, _) = quality(accept, "text", "plain");
        if closeness == 3 && open_metrics > 0.0 && open_metrics >= classic {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// Returns the `Content-Type` of the format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Encodes every metric of the registry.
    ///
    /// # Errors
    /// Fails if a metric cannot be encoded.
    pub fn encode(self, registry: &Registry) -> Result<String, fmt::Error> {
        let mut open_metrics = String::with_capacity(16 * 1024);
        text::encode(&mut open_metrics, registry)?;
        Ok(match self {
            Self::OpenMetrics => open_metrics,
            Self::Classic => classic(&open_metrics),
        })
    }
}

/// Translates OpenMetrics text to the classic format. `TYPE` and `HELP` of counters and infos get the suffix of
/// their samples, and infos become gauges. Units, exemplars and the end mark are left out.
fn classic(open_metrics: &str) -> String {
    let suffixes: HashMap<&str, &str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .filter_map(|(name, kind)| match kind {
            "counter" => Some((name, "_total")),
            "info" => Some((name, "_info")),
            _ => None,
        })
        .collect();
    let mut out = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        match line.strip_prefix("# ").and_then(|rest| split_keyword(rest)) {
            Some((keyword, name, rest)) => {
                let suffix = suffixes.get(name).copied().unwrap_or_default();
                let rest = match (keyword, rest) {
                    ("TYPE", "info") => "gauge",
                    _ => rest,
                };
                out.extend(["# ", keyword, " ", name, suffix, " ", rest]);
            }
            None => out.push_str(without_exemplar(line)),
        }
        out.push('\n');
    }
    out
}

/// Splits `HELP name text` or `TYPE name type` into three parts.
fn split_keyword(line: &str) -> Option<(&str, &str, &str)> {
    let mut parts = line.splitn(3, ' ');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// Removes ` # {exemplar}` from a sample, but not from a label value that contains such text.
fn without_exemplar(line: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (at, character) in line.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        metrics::{
            counter::Counter, exemplar::HistogramWithExemplars, family::Family, gauge::Gauge,
            info::Info,
        },
        registry::Unit,
    };

    use super::*;

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let requests = Family::<Vec<(&str, &str)>, Counter>::default();
        requests
            .get_or_create(&vec![("path", "a # {b=\"c\\\"} 1")])
            .inc_by(3);
        registry.register("requests", "Requests so far", requests);
        let seconds = HistogramWithExemplars::new([0.1, 1.0].into_iter());
        seconds.observe(0.5, Some(vec![("trace_id", "abc")]), None);
        registry.register_with_unit("duration", "How long", Unit::Seconds, seconds);
        registry.register("open", "Open now", Gauge::<i64>::default());
        registry.register("build", "What runs", Info::new([("version", "1")]));
        registry
    }

    #[test]
    fn the_classic_text_has_no_end_mark_no_exemplar_and_only_types_that_it_knows() {
        let text = Format::Classic.encode(&registry()).unwrap();
        assert_eq!(
            text,
            concat!(
                "# HELP requests_total Requests so far.\n",
                "# TYPE requests_total counter\n",
                "requests_total{path=\"a # {b=\\\"c\\\\\\\"} 1\"} 3\n",
                "# HELP duration_seconds How long.\n",
                "# TYPE duration_seconds histogram\n",
                "duration_seconds_sum 0.5\n",
                "duration_seconds_count 1\n",
                "duration_seconds_bucket{le=\"0.1\"} 0\n",
                "duration_seconds_bucket{le=\"1.0\"} 1\n",
                "duration_seconds_bucket{le=\"+Inf\"} 1\n",
                "# HELP open Open now.\n",
                "# TYPE open gauge\n",
                "open 0\n",
                "# HELP build_info What runs.\n",
                "# TYPE build_info gauge\n",
                "build_info{version=\"1\"} 1\n",
            )
        );
    }

    #[test]
    fn open_metrics_keeps_the_exemplar_and_ends_with_the_end_mark() {
        let text = Format::OpenMetrics.encode(&registry()).unwrap();
        assert!(
            text.contains("duration_seconds_bucket{le=\"1.0\"} 1 # {trace_id=\"abc\"} 0.5\n"),
            "{text}"
        );
        for line in ["# TYPE requests counter\n", "# TYPE build info\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn open_metrics_is_chosen_only_when_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        for (accept, format) in [
            (None, Format::Classic),
            (Some(""), Format::Classic),
            (Some("*/*"), Format::Classic),
            (Some("text/plain"), Format::Classic),
            (
                Some("application/openmetrics-text; version=1.0.0"),
                Format::OpenMetrics,
            ),
            (Some("Application/OpenMetrics-Text"), Format::OpenMetrics),
            (Some(prometheus), Format::OpenMetrics),
            (
                Some("application/openmetrics-text;q=0.2, text/plain;q=0.9"),
                Format::Classic,
            ),
            (Some("application/openmetrics-text;q=0"), Format::Classic),
        ] {
            assert_eq!(Format::negotiate(accept), format, "{accept:?}");
        }
    }
}
