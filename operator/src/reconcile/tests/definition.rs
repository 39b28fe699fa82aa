//! Tests of stacks whose fields another resource definition has dropped.

use serde_json::{Value, json};
use shortener_operator_core::api::ShortenerStack;

use crate::{
    kubernetes::definition::tests::document_without,
    testing::{
        api_server::Fault,
        world::{NAMESPACE, World},
    },
};

/// Changes the gateway of the stack without a new generation.
fn reshape(world: &World, gateway: &Value) {
    world
        .server
        .reshape::<ShortenerStack>(NAMESPACE, "acme", |stack| {
            stack["spec"]["gateway"] = gateway.clone();
        });
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_lost_fields_without_an_edit_stays_as_it_is() {
    let auth = json!({"auth": {"secretRef": {"name": "links-keys"}}});
    let world = World::with_stack(json!({"gateway": auth})).await;
    world
        .server
        .serve_definition(Some(document_without("auth")));
    reshape(&world, &json!({}));
    world.settle().await;
    assert_eq!(world.server.writes(), []);
    // Whether the definition is older is unknown until it can be read.
    world
        .server
        .fail_reads_of("v1alpha1", Some(Fault::Refuse(503)));
    world.settle().await;
    assert_eq!(world.server.writes(), []);
    world.server.fail_reads_of("v1alpha1", None);
    // The definition is the newest again, and so is the stack.
    world.server.serve_definition(Some(document_without("")));
    reshape(&world, &auth);
    world.settle().await;
    assert_eq!(world.child_writes(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_change_by_a_current_definition_and_an_edit_are_followed() {
    let auth = json!({"auth": {"secretRef": {"name": "links-keys"}}});
    for edited in [false, true] {
        let world = World::with_stack(json!({"gateway": auth})).await;
        let document = document_without(if edited { "auth" } else { "" });
        world.server.serve_definition(Some(document));
        match edited {
            true => world.edit_spec("acme", |spec| spec["gateway"] = json!({})),
            false => reshape(&world, &json!({})),
        }
        world.settle().await;
        let app = "/apis/apps/v1/namespaces/links/deployments/acme-app".to_owned();
        assert!(world.child_writes().contains(&app), "{edited}");
    }
}
