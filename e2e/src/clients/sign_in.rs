//! A fake authentication proxy in place of oauth2-proxy. The ingress controller asks it for the visitor of each request.

use anyhow::Result;
use serde_json::{Value, json};

use crate::harness::{Space, restricted_container, server::Server};

/// The path to which the ingress controller sends its question.
pub const ASK: &str = "/ask";
/// The variable with the headers of the answer for a visitor who is signed in, as a JSON object.
pub const SIGNED_IN: &str = "SIGNED_IN";

const NAME: &str = "sign-in";
const PORT: u16 = 3000;

/// Starts the proxy in a namespace. It accepts every request with a cookie, and its answer has these headers. Returns the URL
/// for the ingress controller.
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
