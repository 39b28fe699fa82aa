//! The public route through a Gateway of the Gateway API.
//!
//! It sends every request of the host to the stack's own nginx, which does the rest: implementations differ on rewrites,
//! time-outs and headers.

use std::collections::BTreeMap;

use super::SERVICE_PORT;
use crate::model::{
    gateway_api::{
        BackendReference, HttpRoute, HttpRouteMatch, HttpRouteRule, HttpRouteSpec, ParentReference,
        PathMatch,
    },
    metadata::{CONSOLE_HOST, Component, component_name},
    stack::{Parent, Routing, ValidatedStack},
};

/// Returns the HTTPRoute `<stack>`, or `None` without a Gateway, or if another stack serves one of the hosts.
pub fn http_route(stack: &ValidatedStack) -> Option<HttpRoute> {
    let Routing::GatewayApi { annotations, .. } = &stack.gateway.routing else {
        return None;
    };
    let name = stack.identity.name.clone();
    route(stack, name, stack.gateway.hosts.clone(), annotations)
}

/// Returns the HTTPRoute `<stack>-console` of a console with a host of its own, so that a policy about those who sign in does
/// not touch links.
pub fn console_route(stack: &ValidatedStack) -> Option<HttpRoute> {
    let console = stack.gateway.console.as_ref()?;
    let name = format!("{}-console", stack.identity.name);
    route(
        stack,
        name,
        vec![console.host.clone()],
        &console.annotations,
    )
}

fn route(
    stack: &ValidatedStack,
    name: String,
    hosts: Vec<String>,
    annotations: &BTreeMap<String, String>,
) -> Option<HttpRoute> {
    let gateway = &stack.gateway;
    let Routing::GatewayApi { parents, .. } = &gateway.routing else {
        return None;
    };
    if gateway.is_shut_out() {
        return None;
    }
    let spec = HttpRouteSpec {
        parent_refs: parents.iter().map(reference).collect(),
        hostnames: hosts,
        rules: vec![HttpRouteRule {
            matches: vec![HttpRouteMatch {
                path: PathMatch {
                    type_: "PathPrefix".to_owned(),
                    value: "/".to_owned(),
                },
                ..HttpRouteMatch::default()
            }],
            backend_refs: vec![BackendReference {
                namespace: None,
                name: component_name(&stack.identity.name, Component::Gateway),
                port: SERVICE_PORT,
            }],
            ..HttpRouteRule::default()
        }],
    };
    let console = gateway.console.as_ref();
    let console = console.map(|console| (CONSOLE_HOST.to_owned(), console.host.clone()));
    let annotations: BTreeMap<_, _> = annotations.clone().into_iter().chain(console).collect();
    let mut route = HttpRoute::new(&name, spec);
    route.metadata = stack.identity.child(name, Component::Gateway);
    route.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
    Some(route)
}

fn reference(parent: &Parent) -> ParentReference {
    ParentReference {
        namespace: Some(parent.namespace.clone()),
        name: parent.name.clone(),
        section_name: parent.section.clone(),
        port: parent.port,
        ..ParentReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_route_of_a_stack_with_a_host() {
        let stack = minimal_stack().gateway_api().host("go.example.com");
        golden("http-route", &http_route(&stack));
    }

    #[test]
    fn a_stack_without_a_host_takes_every_host_of_the_gateway() {
        let route = http_route(&minimal_stack().gateway_api()).unwrap();
        assert_eq!(route.spec.hostnames, [] as [String; 0]);
    }

    #[test]
    fn annotations_of_the_user_reach_the_route() {
        let key = "external-dns.alpha.kubernetes.io/ttl";
        let stack = minimal_stack().gateway_api();
        assert_eq!(http_route(&stack).unwrap().metadata.annotations, None);
        let route = http_route(&stack.annotated(&[(key, "60")])).unwrap();
        assert_eq!(route.metadata.annotations.unwrap()[key], "60");
    }

    #[test]
    fn a_console_on_its_own_host_has_a_route_of_its_own() {
        let stack = minimal_stack().gateway_api().host("go.example.com");
        assert_eq!(console_route(&stack), None);
        let stack = stack.console(&[("team", "links")]);
        golden("http-route-console", &console_route(&stack));
        let links = http_route(&stack).unwrap();
        assert_eq!(links.spec.hostnames, ["go.example.com"]);
        let annotations = links.metadata.annotations.unwrap();
        assert_eq!(annotations[CONSOLE_HOST], "console.example.com");
        assert!(!annotations.contains_key("team"));
        assert_eq!(console_route(&stack.conflict("links/older")), None);
    }

    #[test]
    fn a_host_that_another_stack_holds_is_left_to_it() {
        let stack = minimal_stack().gateway_api().conflict("links/older");
        assert_eq!(http_route(&stack), None);
        assert_eq!(http_route(&minimal_stack()), None);
        let route = http_route(&stack.keeping("go.test")).unwrap();
        assert_eq!(route.spec.hostnames, ["go.test"]);
    }
}
