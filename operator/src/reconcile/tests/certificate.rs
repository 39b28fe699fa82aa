//! Tests of the gateway's certificate, which the user or an issuer creates.

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::testing::world::{NAMESPACE, World};

const SECRET: &str = "go-tls";

#[tokio::test(start_paused = true)]
async fn a_certificate_is_missed_until_it_exists_and_never_restarts_the_gateway() {
    let gateway =
        json!({"provider": "Standalone", "hosts": ["go.test"], "tls": {"secretName": SECRET}});
    let world = World::with_stack(json!({"gateway": gateway})).await;
    let missing = world.condition("acme", "GatewayReady");
    assert_eq!(missing.reason, "SecretNotFound", "{}", missing.message);

    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": SECRET, "namespace": NAMESPACE})).unwrap(),
        ..Secret::default()
    });
    world.settle().await;
    let found = world.condition("acme", "GatewayReady");
    assert_ne!(found.reason, "SecretNotFound", "{}", found.message);

    // nginx reads a renewed certificate by itself.
    world.server.edit::<Secret>(NAMESPACE, SECRET, |secret| {
        secret["data"] = json!({"tls.crt": Value::from("bmV3")});
    });
    world.settle().await;
    assert_eq!(world.child_writes(), [] as [String; 0]);
}
