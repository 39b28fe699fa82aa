//! The gateway of a stack: nginx with the configuration that the operator renders for a gateway of its own.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};

use crate::{nginx, server::Server};

/// The golden manifest, which the tests of the operator keep equal to what it renders.
const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../operator/core/snapshots/nginx-standalone.snap"
);

/// Starts the gateway in front of an app.
///
/// # Errors
/// Fails if nginx does not start, or if the configuration has changed so much that its addresses are not found.
pub async fn start(app: SocketAddr) -> Result<Arc<Server>> {
    let golden = fs::read_to_string(GOLDEN);
    let golden = golden.with_context(|| {
        format!("cannot read {GOLDEN}: run the benchmark in the checkout that it was compiled in")
    })?;
    nginx::start("gateway", |address, folder| {
        configuration(&golden, address, app, folder)
    })
    .await
}

/// Returns the configuration with addresses of this machine, and with this folder instead of the pod's `/tmp`.
fn configuration(
    golden: &str,
    address: SocketAddr,
    app: SocketAddr,
    folder: &Path,
) -> Result<String> {
    let text = golden
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"));
    let (_, text) = text.with_context(|| format!("{GOLDEN} does not begin with a header"))?;
    let mut text = text.to_owned();
    for (found, replacement) in [
        ("server 10.96.0.42:3000 ", format!("server {app} ")),
        (
            "listen 8080 default_server;",
            format!("listen {address} default_server;"),
        ),
        ("listen [::]:8080 default_server;", String::new()),
        ("/tmp/", format!("{}/", folder.display())),
    ] {
        ensure!(
            text.contains(found),
            "{GOLDEN} has no `{found}` any more: adapt workloads/bench/src/gateway.rs to what the operator renders"
        );
        text = text.replace(found, &replacement);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(golden: &str) -> Result<String> {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        configuration(golden, address(1), address(2), Path::new("/folder"))
    }

    #[test]
    fn the_configuration_of_the_operator_gets_addresses_of_this_machine_and_keeps_the_rest() {
        let golden = fs::read_to_string(GOLDEN).unwrap();
        let text = rendered(&golden).unwrap();
        assert_eq!(text.matches("server 127.0.0.1:2 max_fails=0;").count(), 2);
        assert_eq!(text.matches("listen ").count(), 1);
        for kept in [
            "listen 127.0.0.1:1 default_server;",
            "pid /folder/nginx.pid;",
            "location = /gateway-health {",
            "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        ] {
            assert!(text.contains(kept), "{kept}\n{text}");
        }
        for gone in ["source:", "10.96.0.42", "8080", "/tmp"] {
            assert!(!text.contains(gone), "{gone}\n{text}");
        }
    }

    #[test]
    fn a_configuration_that_has_changed_is_refused_with_what_is_missing() {
        let golden = fs::read_to_string(GOLDEN).unwrap();
        let changed = golden.replace("10.96.0.42:3000", "app.links.svc:3000");
        let error = rendered(&changed).unwrap_err().to_string();
        assert!(error.contains("`server 10.96.0.42:3000 `"), "{error}");
        assert!(rendered("server {}").is_err());
    }
}
