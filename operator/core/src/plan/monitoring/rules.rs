//! The alerts of a stack as an object of the Prometheus operator.

use super::filled;
use crate::model::{
    metadata::{Component, StackIdentity},
    prometheus::{PrometheusRule, PrometheusRuleSpec},
    stack::ValidatedStack,
};

/// Page with a section for each alert.
const RUNBOOKS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/runbooks.md");

/// Returns the PrometheusRule `<stack>`, or `None` if monitoring is off or the stack is stopped.
pub fn prometheus_rule(stack: &ValidatedStack) -> Option<PrometheusRule> {
    let monitoring = stack.monitoring.as_ref().filter(|_| !stack.stopped)?;
    let identity = &stack.identity;
    let mut rule = PrometheusRule::new(&identity.name, spec(identity));
    rule.metadata = identity.child(&identity.name, Component::Stack);
    monitoring.label(&mut rule.metadata);
    Some(rule)
}

#[expect(
    clippy::expect_used,
    reason = "the template is a part of this program, and the names in it are valid in YAML"
)]
fn spec(identity: &StackIdentity) -> PrometheusRuleSpec {
    let text = filled(include_str!("alerts.yaml"), identity).replace("%RUNBOOKS%", RUNBOOKS);
    serde_yaml::from_str(&text).expect("alerts.yaml is a list of groups")
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
