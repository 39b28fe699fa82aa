//! The permission of a Gateway of another namespace to use the certificate.

use crate::model::{
    gateway_api::{GATEWAY, GROUP, GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec},
    metadata::Component,
    stack::{Routing, ValidatedStack},
};

/// Returns the ReferenceGrant `<stack>-tls`, or `None` if no Gateway of another namespace needs a certificate of the
/// stack's. It covers this one Secret.
pub fn reference_grant(stack: &ValidatedStack) -> Option<ReferenceGrant> {
    let Routing::GatewayApi {
        parent,
        tls: Some(tls),
        ..
    } = &stack.gateway.routing
    else {
        return None;
    };
    let identity = &stack.identity;
    if parent.namespace == identity.namespace || stack.gateway.routing.is_shut_out() {
        return None;
    }
    let name = format!("{}-tls", identity.name);
    let spec = ReferenceGrantSpec {
        from: vec![GrantFrom {
            group: GROUP.to_owned(),
            kind: GATEWAY.to_owned(),
            namespace: parent.namespace.clone(),
        }],
        to: vec![GrantTo {
            // Secrets are in the group without a name.
            group: String::new(),
            kind: "Secret".to_owned(),
            name: tls.secret_name.clone(),
        }],
    };
    let mut grant = ReferenceGrant::new(&name, spec);
    grant.metadata = identity.child(&name, Component::Gateway);
    Some(grant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn a_gateway_of_another_namespace_may_use_the_certificate_and_nothing_else() {
        let stack = minimal_stack()
            .gateway_api()
            .host("go.example.com")
            .tls("go-tls");
        golden("reference-grant", &reference_grant(&stack));
    }

    #[test]
    fn without_a_certificate_or_in_the_same_namespace_nothing_is_permitted() {
        let without = minimal_stack().gateway_api();
        assert_eq!(reference_grant(&without), None);
        let mut near = without.host("go.example.com").tls("go-tls");
        if let Routing::GatewayApi { parent, .. } = &mut near.gateway.routing {
            parent.namespace = near.identity.namespace.clone();
        }
        assert_eq!(reference_grant(&near), None);
        let standalone = minimal_stack().standalone().host("go.test").tls("go-tls");
        assert_eq!(reference_grant(&standalone), None);
    }
}
