//! Tests of alerts and panels against the exported metrics and the documentation.

mod exported;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{dashboard, prometheus_rule};
use crate::testing::stack::minimal_stack;
use exported::Exported;

/// The page that documents every metric of the app, the workers, the operator and the collector.
const METRICS: &str = include_str!("../../../../../docs/observability.md");
const RUNBOOKS: &str = include_str!("../../../../../docs/runbooks.md");
/// The page that names the alerts which need someone at once.
const PRODUCTION: &str = include_str!("../../../../../docs/production.md");
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

/// Returns the alerts of a stack.
fn alerts() -> Vec<Value> {
    let rule = prometheus_rule(&minimal_stack().observability()).unwrap();
    let spec = serde_json::to_value(rule.spec).unwrap();
    spec["groups"][0]["rules"].as_array().unwrap().clone()
}

/// Returns the graphs of a stack's dashboard.
fn graphs() -> Vec<Value> {
    let text = dashboard(&minimal_stack().observability());
    let mut dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array_mut().unwrap();
    panels.retain(|panel| panel["type"] == "timeseries");
    std::mem::take(panels)
}

/// Returns the expressions of a graph.
fn lines(graph: &Value) -> impl Iterator<Item = &str> {
    let targets = graph["targets"].as_array().unwrap().iter();
    targets.map(|target| target["expr"].as_str().unwrap())
}

/// Returns every expression.
fn expressions() -> Vec<String> {
    let (alerts, graphs) = (alerts(), graphs());
    let raised = alerts.iter().map(|alert| alert["expr"].as_str().unwrap());
    let all = raised.chain(graphs.iter().flat_map(lines));
    all.map(str::to_owned).collect()
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
    let graphs = graphs();
    for text in graphs.iter().flat_map(lines) {
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
    for graph in graphs() {
        let mut selectors = lines(&graph).flat_map(selectors);
        let lead = selectors.any(|selector| exported.has_exemplars(selector.series));
        for target in graph["targets"].as_array().unwrap() {
            assert_eq!(target["exemplar"], lead, "{}", graph["title"]);
        }
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
    let alerts = alerts();
    let of_a_stack = alerts.iter().map(|alert| alert["alert"].as_str().unwrap());
    let names: Vec<&str> = of_a_stack.chain(of_the_chart).collect();
    assert!(names.len() > alerts.len(), "the chart has no alert");
    assert_eq!(sections, names);
    for alert in &alerts {
        let (name, runbook) = (&alert["alert"], &alert["annotations"]["runbook_url"]);
        let anchor = format!("#{}", name.as_str().unwrap().to_lowercase());
        assert!(runbook.as_str().unwrap().ends_with(&anchor), "{name}");
    }
}

#[test]
fn the_page_about_production_names_the_alerts_that_page_at_once() {
    let alerts = alerts();
    let critical = alerts
        .iter()
        .filter(|alert| alert["labels"]["severity"] == "critical");
    let critical: BTreeSet<&str> = critical
        .map(|alert| alert["alert"].as_str().unwrap())
        .collect();
    let (_, list) = PRODUCTION.split_once("need someone at once: ").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let words = list.split(|letter: char| !letter.is_ascii_alphanumeric());
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("Shortener")).collect();
    assert_eq!(named, critical);
}

#[test]
fn a_job_that_a_runbook_makes_has_another_name_each_time() {
    let commands: Vec<&str> = RUNBOOKS.split("kubectl create job ").skip(1).collect();
    assert!(!commands.is_empty());
    for command in commands {
        let (name, _) = command.split_once(" -n links").unwrap();
        assert!(name.ends_with("-$(date +%s)"), "{name}");
    }
}

#[test]
fn a_runbook_that_names_the_managed_database_has_the_pods_of_a_cluster_too() {
    let sections = RUNBOOKS.split("\n## ");
    let named: Vec<&str> = sections
        .filter(|section| section.contains("demo-postgres-0"))
        .collect();
    assert!(!named.is_empty());
    for section in named {
        let selector = "-l cnpg.io/cluster=demo-pg,cnpg.io/podRole=instance";
        assert!(section.contains(selector), "{section}");
    }
}
