//! `GatewayReady`: requests from outside reach the app.

use k8s_openapi::api::networking::v1::Ingress;

use super::{Verdict, View};
use crate::{
    model::{metadata::Component, stack::Routing},
    plan::verdict::workload,
};

/// Checks for a host conflict, then the gateway's own pods, then that a controller has adopted the Ingresses.
pub fn gateway_ready(view: View<'_>) -> Verdict {
    if let Routing::IngressNginx {
        host,
        class,
        conflict: Some(other),
        ..
    } = &view.stack.gateway.routing
    {
        let host = if host.is_empty() { "every host" } else { host };
        return Verdict::fault(
            "HostConflict",
            format!(
                "stack {other} already serves {host} on IngressClass {class}: set another spec.gateway.host"
            ),
        );
    }
    let pods = workload::ready(view, Component::Gateway);
    match &view.stack.gateway.routing {
        Routing::IngressNginx { class, .. } if pods.holds && !taken_up(view) => Verdict::no(
            "IngressPending",
            format!(
                "no controller of IngressClass {class} serves the Ingresses: install ingress-nginx, set another \
                 spec.gateway.ingressClassName, or set spec.gateway.provider to Standalone"
            ),
        ),
        _ => pods,
    }
}

fn taken_up(view: View<'_>) -> bool {
    let ingresses = &view.live.ingresses;
    !ingresses.is_empty() && ingresses.iter().all(|ingress| has_address(ingress))
}

fn has_address(ingress: &Ingress) -> bool {
    let balancer = ingress
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    balancer
        .and_then(|balancer| balancer.ingress.as_ref())
        .is_some_and(|addresses| !addresses.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        model::live::Live,
        testing::{self, live::workload, stack::minimal_stack},
    };

    fn live(addresses: serde_json::Value) -> Live {
        let ingress = json!({"metadata": {}, "status": {"loadBalancer": {"ingress": addresses}}});
        Live {
            ingresses: vec![Arc::new(serde_json::from_value(ingress).unwrap())],
            ..testing::live::live(Component::Gateway, workload(2, 2))
        }
    }

    #[test]
    fn an_ingress_needs_a_controller_that_took_it_up() {
        let stack = minimal_stack();
        let ready = live(json!([{"ip": "192.0.2.1"}]));
        assert_eq!(
            gateway_ready(View {
                stack: &stack,
                live: &ready
            })
            .reason,
            "PodsReady"
        );
        assert_eq!(
            gateway_ready(View {
                stack: &stack,
                live: &live(json!([]))
            })
            .reason,
            "IngressPending"
        );
    }

    #[test]
    fn a_standalone_gateway_needs_its_pods_only() {
        let stack = minimal_stack().standalone();
        let live = Live {
            ingresses: Vec::new(),
            ..live(json!([]))
        };
        assert!(
            gateway_ready(View {
                stack: &stack,
                live: &live
            })
            .holds
        );
    }

    #[test]
    fn a_taken_host_names_the_stack_that_holds_it() {
        let stack = minimal_stack().conflict("links/older");
        let verdict = gateway_ready(View {
            stack: &stack,
            live: &live(json!([])),
        });
        assert!(
            verdict.reason == "HostConflict" && verdict.message.contains("links/older"),
            "{verdict:?}"
        );
    }
}
