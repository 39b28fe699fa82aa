//! `WebhooksReady`: webhooks are delivered, and the Secret of each receiver exists. Requests do not depend on it.

use super::{Verdict, View};
use crate::{
    model::{metadata::Component, stack::Webhook},
    plan::verdict::workload,
};

/// Checks the Deployment and its pod, then that each Secret exists. Webhooks without a Secret wait, and those of the other
/// receivers are delivered.
pub fn webhooks_ready(view: View<'_>) -> Verdict {
    let pods = workload::ready(view, Component::Webhooks);
    let missing = view.stack.webhooks.iter();
    let missing: Vec<&Webhook> = missing.filter(|receiver| receiver.missing).collect();
    if pods.fault || view.stack.stopped || missing.is_empty() {
        return pods;
    }
    let named: Vec<String> = missing.into_iter().map(named).collect();
    Verdict::fault(
        "SecretNotFound",
        format!(
            "{}: create it with the entry secret, a line whsec_ and 24 to 64 bytes in base64; what is to be sent to the \
             receiver waits",
            named.join("; ")
        ),
    )
    .serving(pods.serves)
}

fn named(receiver: &Webhook) -> String {
    let Webhook { name, secret, .. } = receiver;
    format!("links.webhooks[{name}].secretRef: Secret {secret} does not exist")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::live::Workload,
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    #[test]
    fn a_missing_secret_is_named_unless_the_pod_has_a_fault_of_its_own() {
        let whole = minimal_stack().webhooks();
        let mut lacking = whole.clone();
        lacking.webhooks[1].missing = true;
        let broken = Workload {
            existing: 0,
            failure: Some("exceeded quota".into()),
            ..workload(1, 0)
        };
        for (stack, workload, holds, reason) in [
            (whole.clone(), workload(1, 1), true, "PodsReady"),
            (whole, workload(1, 0), false, "PodsStarting"),
            (lacking.clone(), workload(1, 1), false, "SecretNotFound"),
            (lacking.clone(), broken, false, "PodsNotCreated"),
            (lacking.stopped(), workload(0, 0), false, "Stopped"),
        ] {
            let view = View {
                stack: &stack,
                live: &live(Component::Webhooks, workload),
            };
            let found = webhooks_ready(view);
            assert_eq!((found.holds, found.reason), (holds, reason), "{found:?}");
            let start =
                "links.webhooks[audit].secretRef: Secret audit-hook does not exist: create it";
            let named = found.fault && found.message.starts_with(start);
            assert_eq!(named, reason == "SecretNotFound", "{found:?}");
        }
    }
}
