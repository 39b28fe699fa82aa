//! The Secrets that the operator generates. Their data is written only on creation: the live Secret is authoritative,
//! so a rotation by the user is kept. What is rendered from that data is applied.

use k8s_openapi::api::core::v1::Secret;

use crate::{
    model::{
        credentials::{checksum_name, job_ids_name, management_name},
        desired::DesiredSecret,
        metadata::{Component, component_name},
        stack::{Credential, ManagedStore, ValidatedStack},
    },
    plan::stores::Definition,
};

/// Returns the Secrets with the keys of the stack itself.
pub fn own(stack: &ValidatedStack) -> [DesiredSecret; 3] {
    [checksum(stack), job_ids(stack), management(stack)]
}

/// Returns the Secret `<stack>-checksum` with the key for checksums.
fn checksum(stack: &ValidatedStack) -> DesiredSecret {
    let name = checksum_name(&stack.identity.name);
    desired(stack, name, Component::Stack, &stack.checksum_key)
}

/// Returns the Secret `<stack>-job-ids` with the key that marks the identifiers of jobs.
pub fn job_ids(stack: &ValidatedStack) -> DesiredSecret {
    let name = job_ids_name(&stack.identity.name);
    desired(stack, name, Component::App, &stack.app.job_ids.key)
}

/// Returns the Secret `<stack>-management` with the key with which the operator manages links.
fn management(stack: &ValidatedStack) -> DesiredSecret {
    let name = management_name(&stack.identity.name);
    desired(stack, name, Component::App, &stack.app.management.key)
}

/// Returns the Secret `<stack>-<component>` with the credentials of a store.
pub(in crate::plan) fn store(
    stack: &ValidatedStack,
    store: &Definition,
    managed: &ManagedStore,
) -> DesiredSecret {
    let name = component_name(&stack.identity.name, store.component);
    let mut desired = desired(stack, name, store.component, &managed.credentials);
    // Rendered from the live Secret, so it is applied like any field of the operator. The other keys belong to the user.
    desired.secret.data = (store.rendered_secret)(stack);
    desired
}

fn desired(
    stack: &ValidatedStack,
    name: String,
    component: Component,
    credential: &Credential,
) -> DesiredSecret {
    let secret = Secret {
        metadata: stack.data_metadata(name, component),
        ..Secret::default()
    };
    let create = credential.is_new.then(|| Secret {
        // Apply cannot remove a field that the create request sets. The deletion policy may change, so apply sets the
        // owner reference.
        metadata: stack
            .identity
            .retained(secret.metadata.name.clone().unwrap_or_default(), component),
        data: Some(credential.data.clone()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    });
    DesiredSecret { secret, create }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::stack::App,
        plan::stores::{self, postgres},
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    #[test]
    fn a_secret_is_applied_without_credentials() {
        let stack = every_profile();
        golden("secret-checksum", &checksum(&stack).secret);
        golden("secret-job-ids", &job_ids(&stack).secret);
        golden("secret-management", &management(&stack).secret);
        for (definition, managed) in stores::managed(&stack) {
            let component = definition.component;
            let name = format!("secret-{}", component.as_str());
            let mut secret = store(&stack, definition, managed).secret;
            // The broker's definitions are rendered and have a golden file of their own.
            let rendered = secret.data.take().unwrap_or_default();
            let keys: Vec<&str> = rendered.keys().map(String::as_str).collect();
            let expected: &[&str] = match component {
                Component::Rabbitmq => {
                    &["definitions.json", "operator-password", "operator-username"]
                }
                _ => &[],
            };
            assert_eq!(keys, expected, "{component:?}");
            golden(&name, &secret);
        }
    }

    #[test]
    fn data_is_written_only_when_it_was_minted() {
        let live = minimal_stack();
        let database = live.database.as_ref().unwrap().managed().unwrap();
        assert!(own(&live).iter().all(|secret| secret.create.is_none()));
        assert_eq!(store(&live, &postgres::STORE, database).create, None);

        let new = minimal_stack().with_new_secrets();
        let database = new.database.as_ref().unwrap().managed().unwrap();
        let created = store(&new, &postgres::STORE, database).create.unwrap();
        assert_eq!(created.data.as_ref(), Some(&database.credentials.data));
        let created = own(&new).map(|secret| secret.create.unwrap().data.unwrap());
        let (
            App {
                job_ids,
                management,
                ..
            },
            checksum,
        ) = (new.app, new.checksum_key);
        assert_eq!(
            created,
            [checksum.data, job_ids.key.data, management.key.data]
        );
    }

    #[test]
    fn credentials_outlive_the_stack_unless_the_data_is_to_be_deleted() {
        let kept = checksum(&minimal_stack()).secret.metadata;
        assert_eq!(kept.owner_references, None);
        let stack = minimal_stack().deleting_data();
        let owned = checksum(&stack).secret.metadata;
        assert_eq!(owned.owner_references, Some(vec![stack.identity.owner]));
    }
}
