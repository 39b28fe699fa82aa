//! `SoleEntry`: nothing of the stack is reached past its gateway.
//!
//! Objects that open another way in are found by what they say; the NetworkPolicies are tried, because a cluster may have
//! a network plugin that ignores them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use k8s_openapi::api::{core::v1::Pod, networking::v1::NetworkPolicyPeer};
use kube_core::ResourceExt;

use super::{Verdict, View};
use crate::{
    model::{
        measured::Enforcement,
        metadata::{Component, component_name},
        stack::{Routing, ValidatedStack},
    },
    plan::{
        build,
        stores::{self, external},
        verdict::pods,
    },
};

/// Label of a namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Connections that the operator tries to pods of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// One that the policies allow. Unless it succeeds, the others prove nothing.
    pub allowed: SocketAddr,
    /// Those that the policies forbid.
    pub forbidden: Vec<SocketAddr>,
}

/// Returns the connections to try: to the app's port and to one store, both of pods that are ready; `None` if there is
/// nothing that proves anything.
pub fn attempts(stack: &ValidatedStack, pods: &[Arc<Pod>]) -> Option<Attempts> {
    let allowed = external::informant(pods).filter(|_| allows_attempts(stack))?;
    let app = (!admits_operator(stack)).then(|| at(allowed.ip(), build::app::PORT));
    let store = store_ports(stack).into_iter().find_map(|(store, port)| {
        let mut pods = pods::of(pods, store).filter(|pod| pods::is_ready(pod));
        at(address(pods.next()?)?, port)
    });
    let forbidden: Vec<_> = app.flatten().into_iter().chain(store).collect();
    (!forbidden.is_empty()).then_some(Attempts { allowed, forbidden })
}

/// Returns true when there is something to try with a stack whose pods are ready.
pub fn allows_attempts(stack: &ValidatedStack) -> bool {
    !stack.stopped && (!admits_operator(stack) || !store_ports(stack).is_empty())
}

/// Returns the stores with a port that only the stack's own pods may use, and its number.
fn store_ports(stack: &ValidatedStack) -> Vec<(Component, i32)> {
    let managed = stores::managed(stack).into_iter();
    let ports = managed.filter_map(|(store, _)| {
        let mut ports = store.ports.iter();
        let port = ports.find(|port| port.clients && !port.operator)?;
        Some((store.component, port.number))
    });
    ports.collect()
}

/// Returns true when the operator may be among the peers that reach the app. It is not if each of them names another
/// namespace.
fn admits_operator(stack: &ValidatedStack) -> bool {
    match stack.gateway.routing {
        Routing::IngressNginx { .. } => {
            let own = namespace(&stack.operator);
            let peers = &stack.gateway.allow_from;
            peers.is_empty()
                || own.is_none()
                || peers.iter().any(|peer| {
                    let named = namespace(peer);
                    named.is_none() || named == own
                })
        }
        Routing::Standalone { .. } | Routing::GatewayApi { .. } => false,
    }
}

/// Returns the only namespace that a peer selects.
fn namespace(peer: &NetworkPolicyPeer) -> Option<&str> {
    let labels = peer.namespace_selector.as_ref()?.match_labels.as_ref()?;
    labels.get(NAMESPACE_NAME).map(String::as_str)
}

fn address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()
}

fn at(address: IpAddr, port: i32) -> Option<SocketAddr> {
    Some(SocketAddr::new(address, u16::try_from(port).ok()?))
}

/// Returns the verdict; `None` until it is known. It is no fault of the stack: nothing that it was asked for is missing.
pub fn sole_entry(view: View<'_>) -> Option<Verdict> {
    let View { stack, live } = view;
    let entry_points = live.entry_points.as_ref()?;
    let identity = &stack.identity;
    let opened = entry_points
        .iter()
        .find_map(|entry_point| Some((entry_point, entry_point.past_gateway(identity)?)));
    if let Some((entry_point, component)) = opened {
        let (kind, namespace, name) =
            (&entry_point.kind, &entry_point.namespace, &entry_point.name);
        let component = component_name(&identity.name, component);
        return Some(Verdict::no(
            "Exposed",
            format!(
                "{kind} {namespace}/{name} leads to {component} past the gateway, its limits and its keys: delete it, or let it lead elsewhere"
            ),
        ));
    }
    if let Some(pod) = on_the_network_of_its_node(&live.pods) {
        return Some(Verdict::no(
            "Exposed",
            format!(
                "pod {} uses the network of its node, where NetworkPolicies do not protect it: remove hostNetwork from the webhook or policy that adds it to the pods of this namespace",
                pod.name_any()
            ),
        ));
    }
    Some(match live.enforcement? {
        Enforcement::Enforced => Verdict::yes(
            "GatewayOnly",
            "no known object opens another way in, and connections that the NetworkPolicies forbid fail",
        ),
        Enforcement::NotEnforced => Verdict::no(
            "NotEnforced",
            "a connection succeeded that no NetworkPolicy of the stack allows, so every pod of the cluster may reach the app and the stores: install a network plugin that enforces NetworkPolicies, or delete the policy of this namespace that allows it",
        ),
    })
}

/// Returns a pod behind the gateway that has the address of its node.
fn on_the_network_of_its_node(pods: &[Arc<Pod>]) -> Option<&Arc<Pod>> {
    let behind = Component::WITH_PODS.into_iter();
    let mut behind = behind.filter(|component| *component != Component::Gateway);
    behind.find_map(|component| {
        pods::of(pods, component).find(|pod| {
            let status = pod.status.as_ref();
            status.is_some_and(|status| status.pod_ip.is_some() && status.pod_ip == status.host_ip)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        model::{entry_point::EntryPoint, live::Live, metadata::labels},
        testing::stack::minimal_stack,
    };

    fn pod(component: Component, last: u8, node: u8) -> Arc<Pod> {
        let pod = json!({
            "metadata": {
                "name": format!("acme-{}-0", component.as_str()),
                "labels": labels("acme", component),
            },
            "status": {
                "podIP": format!("10.0.0.{last}"),
                "hostIP": format!("10.0.0.{node}"),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn tried(stack: &ValidatedStack, pods: &[Arc<Pod>]) -> Vec<String> {
        let attempts = attempts(stack, pods);
        let forbidden = attempts.map(|attempts| attempts.forbidden);
        let addresses = forbidden.iter().flatten();
        addresses.map(ToString::to_string).collect()
    }

    #[test]
    fn the_apps_port_and_a_stores_are_tried_and_none_that_the_operator_may_use() {
        let (app, database) = (pod(Component::App, 1, 9), pod(Component::Postgres, 2, 9));
        let both = [app.clone(), database.clone()];
        let (app_port, store_port) = ("10.0.0.1:3000", "10.0.0.2:5432");
        let minimal = minimal_stack();
        assert_eq!(tried(&minimal, &both), [app_port, store_port]);
        let allowed = attempts(&minimal, &both).unwrap().allowed;
        assert_eq!(allowed.to_string(), "10.0.0.1:9090");
        assert_eq!(tried(&minimal, &[database]), [""; 0], "nothing allowed");
        let external = minimal_stack().external_database();
        assert_eq!(tried(&external, &both), [app_port]);
        assert_eq!(tried(&minimal_stack().stopped(), &both), [""; 0]);

        // Peers that may select the operator.
        let mut open = minimal_stack();
        for peers in [
            Vec::new(),
            vec![open.operator.clone()],
            vec![NetworkPolicyPeer::default()],
        ] {
            open.gateway.allow_from = peers;
            assert_eq!(tried(&open, &both), [store_port]);
        }
        // They reach a gateway of the stack's own, and not the app.
        assert_eq!(tried(&minimal_stack().standalone(), &[app]), [app_port]);
    }

    #[test]
    fn a_stack_allows_attempts_unless_it_is_stopped_or_has_no_port_that_is_forbidden() {
        let open = |mut stack: ValidatedStack| {
            stack.gateway.allow_from = Vec::new();
            stack
        };
        for (stack, expected) in [
            (minimal_stack(), true),
            (minimal_stack().stopped(), false),
            (minimal_stack().external_database(), true),
            (open(minimal_stack()), true),
            (open(minimal_stack().external_database()), false),
        ] {
            assert_eq!(allows_attempts(&stack), expected, "{stack:?}");
        }
    }

    fn entry_point() -> EntryPoint {
        let service = json!({
            "metadata": {"name": "door", "namespace": "links"},
            "spec": {"type": "NodePort", "selector": labels("acme", Component::Postgres)},
        });
        EntryPoint::of_service(&serde_json::from_value(service).unwrap()).unwrap()
    }

    #[test]
    fn objects_count_before_the_policies_and_nothing_is_said_before_both_are_known() {
        use Enforcement::{Enforced, NotEnforced};
        let (away, own) = (
            pod(Component::Postgres, 2, 9),
            pod(Component::Postgres, 9, 9),
        );
        let table = [
            (None, Some(Enforced), &away, None),
            (Some(vec![]), None, &away, None),
            (
                Some(vec![]),
                Some(Enforced),
                &away,
                Some((true, "GatewayOnly")),
            ),
            (
                Some(vec![]),
                Some(NotEnforced),
                &away,
                Some((false, "NotEnforced")),
            ),
            (
                Some(vec![entry_point()]),
                Some(Enforced),
                &away,
                Some((false, "Exposed")),
            ),
            (
                Some(vec![entry_point()]),
                None,
                &away,
                Some((false, "Exposed")),
            ),
            (Some(vec![]), Some(Enforced), &own, Some((false, "Exposed"))),
        ];
        for (entry_points, enforcement, pod, expected) in table {
            let live = Live {
                entry_points,
                enforcement,
                pods: vec![pod.clone()],
                ..Live::default()
            };
            let stack = minimal_stack();
            let verdict = sole_entry(View {
                stack: &stack,
                live: &live,
            });
            let fault = verdict.as_ref().is_some_and(|verdict| verdict.fault);
            assert!(!fault, "it degrades nothing");
            let found = verdict.map(|verdict| (verdict.holds, verdict.reason));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_object_is_named_with_the_pods_that_it_leads_to() {
        let live = Live {
            entry_points: Some(vec![entry_point()]),
            ..Live::default()
        };
        let stack = minimal_stack();
        let verdict = sole_entry(View {
            stack: &stack,
            live: &live,
        });
        let message = verdict.unwrap().message;
        assert!(
            message.starts_with("Service (of NodePort) links/door leads to acme-postgres"),
            "{message}"
        );
    }
}
