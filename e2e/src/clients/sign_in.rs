//! The stand-in for an authentication proxy that an ingress controller asks who sends a request, such as oauth2-proxy.

use anyhow::Result;
use serde_json::{Value, json};

use crate::harness::{Space, restricted_container, server::Server};

/// The path that the controller asks.
pub const ASK: &str = "/ask";
/// The variable with the headers of an answer for a visitor who is signed in, as a JSON object.
pub const SIGNED_IN: &str = "SIGNED_IN";

const NAME: &str = "sign-in";
const PORT: u16 = 3000;

/// Starts it in a namespace. Every visitor with a cookie is signed in as the one whom these headers name. Returns the address
/// that a controller asks.
pub async fn start_sign_in(space: &Space, headers: &Value) -> Result<String> {
    let probe = json!({"httpGet": {"path": "/readyz", "port": 9090}, "periodSeconds": 1});
    let more = json!({
        "command": ["/echo", "serve"],
        "env": [{"name": SIGNED_IN, "value": headers.to_string()}],
        "readinessProbe": probe,
    });
    let server = Server {
        name: NAME,
        ports: &[PORT],
        container: restricted_container(&space.settings.echo_image, more),
        volumes: json!([]),
    };
    server.start(space).await?;
    Ok(format!(
        "http://{NAME}.{}.svc.cluster.local:{PORT}{ASK}",
        space.name
    ))
}
