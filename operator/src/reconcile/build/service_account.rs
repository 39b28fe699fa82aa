//! The identity of a component's pods. They never talk to the API server, so no token is mounted.

use k8s_openapi::api::core::v1::ServiceAccount;

use crate::{
    metadata::{Component, component_name},
    reconcile::stack::ValidatedStack,
};

/// The ServiceAccount `<stack>-<component>`.
pub fn build(stack: &ValidatedStack, component: Component) -> ServiceAccount {
    let identity = &stack.identity;
    ServiceAccount {
        metadata: identity.child(component_name(&identity.name, component), component),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn a_service_account_mounts_no_token() {
        golden(
            "service-account-app",
            &build(&minimal_stack(), Component::App),
        );
        golden(
            "service-account-gateway",
            &build(&minimal_stack(), Component::Gateway),
        );
        golden(
            "service-account-postgres",
            &build(&minimal_stack(), Component::Postgres),
        );
    }
}
