//! The public route through a Gateway of the Gateway API.
//!
//! It sends every request of the host to the stack's own nginx, which does the rest: implementations differ on rewrites,
//! time-outs and headers.

use super::SERVICE_PORT;
use crate::model::{
    gateway_api::{
        BackendReference, HttpRoute, HttpRouteMatch, HttpRouteRule, HttpRouteSpec, ParentReference,
        PathMatch,
    },
    metadata::{Component, component_name},
    stack::{Parent, Routing, ValidatedStack},
};

/// Returns the HTTPRoute `<stack>`, or `None` without a Gateway, or if another stack serves one of the hosts.
pub fn http_route(stack: &ValidatedStack) -> Option<HttpRoute> {
    let Routing::GatewayApi {
        parents,
        annotations,
        ..
    } = &stack.gateway.routing
    else {
        return None;
    };
    if stack.gateway.is_shut_out() {
        return None;
    }
    let name = &stack.identity.name;
    let spec = HttpRouteSpec {
        parent_refs: parents.iter().map(reference).collect(),
        hostnames: stack.gateway.hosts.clone(),
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
                name: component_name(name, Component::Gateway),
                port: SERVICE_PORT,
            }],
            ..HttpRouteRule::default()
        }],
    };
    let mut route = HttpRoute::new(name, spec);
    route.metadata = stack.identity.child(name, Component::Gateway);
    route.metadata.annotations = Some(annotations.clone()).filter(|all| !all.is_empty());
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
    fn a_host_that_another_stack_holds_is_left_to_it() {
        let stack = minimal_stack().gateway_api().conflict("links/older");
        assert_eq!(http_route(&stack), None);
        assert_eq!(http_route(&minimal_stack()), None);
        let route = http_route(&stack.keeping("go.test")).unwrap();
        assert_eq!(route.spec.hostnames, ["go.test"]);
    }
}
