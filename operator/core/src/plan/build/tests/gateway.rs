//! Tests of the children of each way to route requests.

use super::*;

/// Returns the names of the children of a minimal stack that routes itself, but for these.
fn names_by_nginx(lacks: &[&str]) -> Vec<&'static str> {
    let ingresses = ["Ingress/acme-gateway-api", "Ingress/acme-gateway"];
    let mut names = names_without(&[&ingresses, lacks].concat());
    let app = names.iter().position(|name| *name == "Service/acme-app");
    names.insert(app.unwrap() + 1, "Service/acme-app-pods");
    names
}

#[test]
fn a_stack_that_routes_itself_has_no_ingress_and_knows_the_pods_of_the_app() {
    assert_eq!(names(&minimal_stack().standalone()), names_by_nginx(&[]));
    assert_eq!(
        names(&minimal_stack().conflict("links/older")),
        names_without(&["Ingress/acme-gateway-api", "Ingress/acme-gateway"])
    );
}

#[test]
fn a_stack_on_a_gateway_has_a_route_instead_of_ingresses() {
    let stack = minimal_stack().gateway_api();
    let mut expected = names_by_nginx(&[]);
    expected.push("HTTPRoute/acme");
    assert_eq!(names(&stack), expected);
    let secure = stack.clone().host("go.test").tls("go-tls");
    expected.insert(expected.len() - 1, "ReferenceGrant/acme-tls");
    assert_eq!(names(&secure), expected);
    // Another provider's objects are pruned, except where the cluster lacks their kinds.
    let mut elsewhere = minimal_stack();
    assert!(build(&elsewhere).gateway.is_none());
    elsewhere.has_gateway_kinds = true;
    assert_eq!(build(&elsewhere).gateway, Some(GatewayObjects::default()));
}

#[test]
fn a_gateway_of_its_own_waits_for_the_address_of_the_app() {
    assert_eq!(
        names(&minimal_stack().standalone().upstream(None)),
        names_by_nginx(&["ConfigMap/acme-gateway", "Deployment/acme-gateway"])
    );
}

#[test]
fn nothing_is_pruned_while_the_address_of_the_app_is_unknown() {
    assert!(build(&minimal_stack()).prunable);
    let stack = minimal_stack().standalone();
    assert!(build(&stack).prunable);
    assert!(!build(&stack.upstream(None)).prunable);
    assert!(!build(&minimal_stack().gateway_api().upstream(None)).prunable);
}
