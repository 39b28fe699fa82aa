//! Tests of alerts and panels against the exported metrics and the documentation.

mod exported;

use std::collections::BTreeSet;

use super::{
    alerts::ALERTS,
    expression,
    panels::{Panel, ROWS},
};
use crate::testing::stack::minimal_stack;
use exported::Exported;

/// The page that documents every metric of the app, the workers, the operator and the collector.
const METRICS: &str = include_str!("../../../../../docs/observability.md");
const RUNBOOKS: &str = include_str!("../../../../../docs/runbooks.md");
/// The chart's alert about the operator itself.
const CHART: &str =
    include_str!("../../../../../charts/shortener-operator/templates/prometheusrule.yaml");
/// Suffixes that Prometheus histograms add to a metric's name.
const SUFFIXES: [&str; 2] = ["_bucket", "_count"];
/// Labels that the scraper adds to the series of a pod.
const OF_THE_SCRAPE: [&str; 2] = ["namespace", "stack"];

/// The selector of a metric in an expression.
#[derive(Debug, PartialEq)]
struct Selector<'a> {
    /// Name of the series.
    series: &'a str,
    /// Labels, each with its permitted values; no values for a pattern.
    labels: Vec<(&'a str, Vec<&'a str>)>,
}

impl Selector<'_> {
    /// Returns the metric that the series belong to.
    fn metric(&self) -> &str {
        let suffix = SUFFIXES
            .iter()
            .find_map(|suffix| self.series.strip_suffix(suffix));
        suffix.unwrap_or(self.series)
    }
}

/// Returns the selectors of an expression. In these expressions, every metric name is followed by one.
fn selectors(expression: &str) -> Vec<Selector<'_>> {
    let part_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let braces = expression.match_indices('{').filter_map(|(open, _)| {
        let (before, rest) = (&expression[..open], &expression[open + 1..]);
        let series = &before[before.trim_end_matches(part_of_name).len()..];
        let mut quoted = false;
        let close = rest.find(|letter: char| {
            quoted ^= letter == '"';
            letter == '}' && !quoted
        })?;
        (!series.is_empty()).then(|| Selector {
            series,
            labels: labels(&rest[..close]),
        })
    });
    braces.collect()
}

fn labels(matchers: &str) -> Vec<(&str, Vec<&str>)> {
    let plain = |value: &&str| !value.is_empty() && !value.contains('.');
    let matchers = matchers.split(',').filter_map(|matcher| {
        let (name, rest) = matcher.split_at(matcher.find(['=', '!'])?);
        let values = rest.trim_start_matches(['=', '!', '~']).trim_matches('"');
        Some((name, values.split('|').filter(plain).collect()))
    });
    matchers.collect()
}

fn panels() -> impl Iterator<Item = &'static Panel> {
    ROWS.iter().flat_map(|row| row.panels)
}

/// Returns every expression, rendered for the stack `acme`.
fn expressions() -> Vec<String> {
    let shown = panels().flat_map(|panel| panel.lines.iter().map(|(_, expression)| *expression));
    let raised = ALERTS.iter().map(|alert| alert.expression);
    let identity = minimal_stack().identity;
    let rendered = raised.chain(shown).map(|text| expression(text, &identity));
    rendered.collect()
}

#[test]
fn the_selectors_of_an_expression_are_found() {
    let expression =
        r#"sum by (le) (rate(a_bucket{x="/{code}",y=~"b|5.."}[5m])) or absent(b_total{})"#;
    let found = selectors(expression);
    let labels = vec![("x", vec!["/{code}"]), ("y", vec!["b"])];
    let series = "a_bucket";
    assert_eq!(found[0], Selector { series, labels });
    assert_eq!(found[0].metric(), "a");
    assert_eq!((found[1].series, found.len()), ("b_total", 2));
}

#[test]
fn alerts_and_panels_use_metrics_that_are_documented() {
    let expressions = expressions();
    let all = expressions.iter().flat_map(|text| selectors(text));
    let used: BTreeSet<String> = all.map(|found| found.metric().to_owned()).collect();
    assert!(used.len() > 15);
    for name in used {
        let shown = ['`', '{'].map(|end| format!("`{name}{end}"));
        assert!(
            shown.iter().any(|shown| METRICS.contains(shown)),
            "docs/observability.md has no metric {name}"
        );
    }
}

#[test]
fn alerts_and_panels_select_series_that_app_workers_and_operator_export() {
    let exported = Exported::default();
    for text in expressions() {
        for selector in selectors(&text) {
            let Selector { series, labels } = &selector;
            // The collector is a third-party program, so its series are not exported here.
            if series.starts_with("otelcol_") {
                continue;
            }
            assert!(exported.has(series), "no program exports {series}: {text}");
            let of_a_pod = !series.starts_with("shortener_");
            for (label, values) in labels {
                if of_a_pod && OF_THE_SCRAPE.contains(label) {
                    continue;
                }
                assert!(
                    exported.has_label(series, label, values),
                    "{series} has no {label} with each of {values:?}: {text}"
                );
            }
        }
    }
}

#[test]
fn panels_group_by_labels_that_the_series_have() {
    let exported = Exported::default();
    for (_, text) in panels().flat_map(|panel| panel.lines) {
        let Some((_, rest)) = text.split_once(" by (") else {
            continue;
        };
        let (labels, _) = rest.split_once(')').unwrap();
        for selector in selectors(text) {
            for label in labels.split(", ") {
                assert!(exported.has_label(selector.series, label, &[]), "{text}");
            }
        }
    }
}

#[test]
fn points_lead_to_traces_where_the_series_have_exemplars() {
    let exported = Exported::default();
    for panel in panels() {
        let mut selectors = panel.lines.iter().flat_map(|(_, text)| selectors(text));
        let lead = selectors.any(|selector| exported.has_exemplars(selector.series));
        assert_eq!(panel.exemplars, lead, "{}", panel.title);
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let sections: Vec<&str> = RUNBOOKS
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let of_the_chart = CHART
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: Vec<&str> = ALERTS
        .iter()
        .map(|alert| alert.name)
        .chain(of_the_chart)
        .collect();
    assert!(names.len() > ALERTS.len(), "the chart has no alert");
    assert_eq!(sections, names);
}
