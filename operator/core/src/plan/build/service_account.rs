//! The identity of a component's pods. The pods never use the API server, so no token is mounted.

use k8s_openapi::api::core::v1::ServiceAccount;

use crate::model::{
    metadata::{Component, component_name},
    stack::ValidatedStack,
};

/// Returns the ServiceAccount `<stack>-<component>`.
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
    use crate::{
        plan::stores,
        testing::{golden, stack::every_profile},
    };

    #[test]
    fn a_service_account_mounts_no_token() {
        let stack = every_profile();
        let stores = stores::managed(&stack).into_iter();
        let stores = stores.map(|(store, _)| store.component);
        for component in [Component::App, Component::Gateway]
            .into_iter()
            .chain(stores)
        {
            let name = format!("service-account-{}", component.as_str());
            golden(&name, &build(&stack, component));
        }
    }
}
