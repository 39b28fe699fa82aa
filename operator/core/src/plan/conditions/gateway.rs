//! `GatewayReady`: requests from outside reach the app.

mod gateway_api;

use k8s_openapi::api::networking::v1::Ingress;

use super::{Verdict, View};
use crate::{
    model::{
        facts::HOST_CONFLICT,
        metadata::{Component, StackIdentity},
        stack::{Gateway, HostConflict, Routing},
    },
    plan::verdict::workload,
};

/// Checks for a host conflict, then that the cluster has the kinds of the routes, then that the certificate exists, then
/// the gateway's own pods, then that a controller has adopted the routes.
pub fn gateway_ready(view: View<'_>) -> Verdict {
    let gateway = &view.stack.gateway;
    let routing = &gateway.routing;
    if let Some(conflict) = host_conflict(gateway) {
        // With a host that it keeps, the stack serves on.
        let pods = workload::ready(view, Component::Gateway);
        return conflict.serving(pods.serves && !gateway.is_shut_out());
    }
    if let Routing::GatewayApi { .. } = routing
        && let Some(missing) = gateway_api::kinds_missing(view)
    {
        return missing;
    }
    let pods = workload::ready(view, Component::Gateway);
    if let Some(secret) = &gateway.missing_certificate {
        // nginx does not start without the certificate, and keeps the one that it has loaded. A controller of Ingresses
        // or a Gateway stops using it at once.
        let keeps = pods.serves && gateway.own_tls().is_some();
        let meanwhile = if keeps {
            "the running pods of the gateway keep the one that they have loaded"
        } else {
            "the host has no certificate"
        };
        return Verdict::no(
            "SecretNotFound",
            format!(
                "gateway.tls.secretName: Secret {secret} does not exist: create it as type kubernetes.io/tls, or let \
                 cert-manager create it; until then {meanwhile}"
            ),
        )
        .serving(keeps);
    }
    match routing {
        Routing::GatewayApi { parents, .. } if pods.serves => {
            let secret = gateway.tls.as_ref().map(|tls| tls.secret_name.as_str());
            let mut problems = parents
                .iter()
                .filter_map(|parent| gateway_api::problem(view, parent, secret));
            problems.next().unwrap_or(pods)
        }
        Routing::IngressNginx { class, .. } if pods.serves && !taken_up(view) => {
            without_address(view, class, pods)
        }
        _ => pods,
    }
}

/// Returns the verdict on Ingresses that have no address. A controller that has not reported one after a while may be one
/// that never does, so the address is waited for no longer, unless there is no class for a controller.
fn without_address(view: View<'_>, class: &str, pods: Verdict) -> Verdict {
    let StackIdentity {
        name, namespace, ..
    } = &view.stack.identity;
    let remedy = format!(
        "install ingress-nginx, set another spec.gateway.ingressClassName, or give the stack its own gateway: kubectl patch \
         sst {name} -n {namespace} --type merge -p '{{\"spec\":{{\"gateway\":{{\"provider\":\"Standalone\"}}}}}}'"
    );
    if view.stack.gateway.missing_class {
        return Verdict::no(
            "IngressClassNotFound",
            format!("IngressClass {class} does not exist: {remedy}"),
        );
    }
    if !view.live.address_overdue {
        return Verdict::no(
            "IngressPending",
            format!("no controller of IngressClass {class} serves the Ingresses: {remedy}"),
        );
    }
    if pods.reason != workload::PODS_READY {
        return pods;
    }
    Verdict::yes(
        "AddressUnknown",
        format!(
            "{}; the Ingresses have no address: if no request arrives, check that a controller of IngressClass {class} \
             runs",
            pods.message
        ),
    )
}

/// Returns a verdict if another stack serves a host of this one.
fn host_conflict(gateway: &Gateway) -> Option<Verdict> {
    let HostConflict {
        holder,
        hosts,
        place,
        kept,
    } = gateway.conflict.as_ref()?;
    let hosts = HostConflict::title(hosts);
    let meanwhile = match kept {
        Some(kept) => format!(
            "; this stack continues to serve {} meanwhile",
            HostConflict::title(&kept.hosts.links)
        ),
        None => String::new(),
    };
    Some(Verdict::fault(
        HOST_CONFLICT,
        format!(
            "stack {holder} already serves {hosts} on {place}: change spec.gateway.hosts, or delete that stack or change \
             its hosts{meanwhile}"
        ),
    ))
}

fn taken_up(view: View<'_>) -> bool {
    let ingresses = &view.live.ingresses;
    !ingresses.is_empty() && ingresses.iter().all(|ingress| has_address(ingress))
}

/// Returns true when a controller has reported where an Ingress is reached.
pub fn has_address(ingress: &Ingress) -> bool {
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
    fn an_address_that_no_controller_reports_is_not_waited_for_without_end() {
        let stack = minimal_stack();
        let mut classless = stack.clone();
        classless.gateway.missing_class = true;
        for (stack, ready, holds, reason) in [
            (&stack, 2, true, "AddressUnknown"),
            (&stack, 1, false, "PodsStarting"),
            (&stack, 0, false, "PodsStarting"),
            (&classless, 2, false, "IngressClassNotFound"),
        ] {
            let live = Live {
                address_overdue: true,
                workloads: [(Component::Gateway, workload(2, ready))].into(),
                ..live(json!([]))
            };
            let found = gateway_ready(View { stack, live: &live });
            assert_eq!((found.holds, found.reason), (holds, reason), "{found:?}");
            let serves = ready > 0 && !stack.gateway.missing_class;
            assert_eq!(found.serves, serves, "{found:?}");
        }
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
    fn a_certificate_that_does_not_exist_is_named() {
        let behind = minimal_stack().host("go.test").tls("go-tls");
        let own = minimal_stack().standalone().host("go.test").tls("go-tls");
        for (mut stack, ready, serves) in
            [(own.clone(), 2, true), (own, 0, false), (behind, 2, false)]
        {
            stack.gateway.missing_certificate = Some("go-tls".to_owned());
            let live = Live {
                workloads: [(Component::Gateway, workload(2, ready))].into(),
                ..live(json!([{"ip": "192.0.2.1"}]))
            };
            let verdict = gateway_ready(View {
                stack: &stack,
                live: &live,
            });
            assert_eq!(verdict.reason, "SecretNotFound");
            let named = "gateway.tls.secretName: Secret go-tls does not exist: create it";
            assert!(verdict.message.starts_with(named), "{verdict:?}");
            // An issuer may be about to create it.
            assert!(!verdict.holds && !verdict.fault);
            assert_eq!(verdict.serves, serves, "{verdict:?}");
            let keeps = verdict
                .message
                .ends_with("keep the one that they have loaded");
            assert_eq!(keeps, serves, "{verdict:?}");
        }
    }

    #[test]
    fn a_taken_host_names_the_stack_that_holds_it_and_the_host_that_is_kept() {
        let taken = minimal_stack().host("new.test").conflict("links/older");
        let kept = taken.clone().keeping("before.test");
        for (stack, meanwhile) in [(taken, false), (kept, true)] {
            let verdict = gateway_ready(View {
                stack: &stack,
                live: &live(json!([])),
            });
            assert!(
                verdict.reason == "HostConflict" && verdict.fault,
                "{verdict:?}"
            );
            for part in [
                "links/older",
                "new.test on Gateway infra/public",
                "spec.gateway.hosts",
            ] {
                assert!(verdict.message.contains(part), "{verdict:?}");
            }
            let told = verdict.message.contains("continues to serve before.test");
            assert_eq!(
                (told, verdict.serves),
                (meanwhile, meanwhile),
                "{verdict:?}"
            );
        }
    }
}
