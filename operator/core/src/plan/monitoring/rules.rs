//! The alerts of a stack as an object of the Prometheus operator.

use std::collections::BTreeMap;

use super::{
    alerts::{ALERTS, Alert},
    expression,
};
use crate::model::{
    metadata::{Component, StackIdentity},
    prometheus::{AlertRule, PrometheusRule, PrometheusRuleSpec, RuleGroup},
    stack::ValidatedStack,
};

/// Page with a section for each alert.
pub(super) const RUNBOOKS: &str =
    concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/runbooks.md");

/// Returns the PrometheusRule `<stack>`, or `None` if monitoring is off or the stack is stopped.
pub fn prometheus_rule(stack: &ValidatedStack) -> Option<PrometheusRule> {
    let monitoring = stack.monitoring.as_ref().filter(|_| !stack.stopped)?;
    let identity = &stack.identity;
    let mut rule = PrometheusRule::new(&identity.name, spec(identity));
    rule.metadata = identity.child(&identity.name, Component::Stack);
    monitoring.label(&mut rule.metadata);
    Some(rule)
}

fn spec(identity: &StackIdentity) -> PrometheusRuleSpec {
    PrometheusRuleSpec {
        groups: vec![RuleGroup {
            name: "shortener".to_owned(),
            rules: ALERTS.iter().map(|alert| render(alert, identity)).collect(),
        }],
    }
}

fn render(alert: &Alert, identity: &StackIdentity) -> AlertRule {
    let strings = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
        let entries = entries.iter();
        entries
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let runbook = format!("{RUNBOOKS}#{}", alert.name.to_lowercase());
    AlertRule {
        alert: alert.name.to_owned(),
        expr: expression(alert.expression, identity),
        hold: alert.hold.to_owned(),
        labels: strings(&[
            ("severity", alert.severity),
            ("namespace", &identity.namespace),
            ("stack", &identity.name),
        ]),
        annotations: strings(&[("summary", alert.summary), ("runbook_url", &runbook)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_alerts_of_a_stack() {
        let rule = prometheus_rule(&minimal_stack().observability()).unwrap();
        golden("prometheus-rule", &rule.metadata);
        // `e2e/checks/alerts.sh` reads the rules from this file.
        golden("alert-rules", &rule.spec);
    }

    #[test]
    fn nothing_is_wrong_with_a_stack_that_is_stopped() {
        assert_eq!(
            prometheus_rule(&minimal_stack().observability().stopped()),
            None
        );
        assert_eq!(prometheus_rule(&minimal_stack()), None);
    }
}
