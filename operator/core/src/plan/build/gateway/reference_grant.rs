//! The permission of Gateways of other namespaces to use the certificate.

use std::collections::BTreeSet;

use crate::model::{
    gateway_api::{GATEWAY, GROUP, GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec},
    metadata::Component,
    stack::{Routing, ValidatedStack},
};

/// Returns the ReferenceGrant `<stack>-tls`, or `None` if no Gateway of another namespace needs a certificate of the
/// stack's. It covers this one Secret.
pub fn reference_grant(stack: &ValidatedStack) -> Option<ReferenceGrant> {
    let Routing::GatewayApi { parents, .. } = &stack.gateway.routing else {
        return None;
    };
    let tls = stack.gateway.tls.as_ref()?;
    let identity = &stack.identity;
    let namespaces = parents.iter().map(|parent| &parent.namespace);
    let others: BTreeSet<_> = namespaces
        .filter(|namespace| **namespace != identity.namespace)
        .collect();
    if others.is_empty() || stack.gateway.is_shut_out() {
        return None;
    }
    let name = format!("{}-tls", identity.name);
    let spec = ReferenceGrantSpec {
        from: others
            .into_iter()
            .map(|namespace| GrantFrom {
                group: GROUP.to_owned(),
                kind: GATEWAY.to_owned(),
                namespace: namespace.clone(),
            })
            .collect(),
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
    use crate::model::stack::Parent;
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
    fn each_namespace_with_a_gateway_is_named_once() {
        let mut stack = minimal_stack().gateway_api().host("go.test").tls("go-tls");
        if let Routing::GatewayApi { parents, .. } = &mut stack.gateway.routing {
            let mut others = ["edge", "infra", "links"].map(|namespace| Parent {
                namespace: namespace.to_owned(),
                ..parents[0].clone()
            });
            others[1].section = Some("https".to_owned());
            parents.extend(others);
        }
        let grant = reference_grant(&stack).unwrap();
        let namespaces: Vec<_> = grant.spec.from.iter().map(|from| &from.namespace).collect();
        assert_eq!(namespaces, ["edge", "infra"]);
    }

    #[test]
    fn without_a_certificate_or_in_the_same_namespace_nothing_is_permitted() {
        let without = minimal_stack().gateway_api();
        assert_eq!(reference_grant(&without), None);
        let mut near = without.host("go.example.com").tls("go-tls");
        if let Routing::GatewayApi { parents, .. } = &mut near.gateway.routing {
            parents[0].namespace = near.identity.namespace.clone();
        }
        assert_eq!(reference_grant(&near), None);
        let standalone = minimal_stack().standalone().host("go.test").tls("go-tls");
        assert_eq!(reference_grant(&standalone), None);
    }
}
