//! The yardsticks: nginx with the same response to every request, nginx with a map of all links, and nginx that accepts
//! every job.

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path, process::Stdio, sync::Arc};

use anyhow::{Context, Result};
use rustix::process::geteuid;
use shortener_testing::servers;
use tokio::process::Command;

use crate::{
    links::{code, target},
    server::{End, Server, free_address},
};

/// A response to a job like the app's.
const ACCEPTED: &str = r#"{"status":"enqueued","id":"01996f0c-2b1d-7c3a-9d41-5e6f70819aab","trace_id":"0af7651916cd43dd8448eb211c80319c"}"#;

/// The folders of bodies, below that of the configuration. nginx creates those of its build otherwise, which only the image
/// has room for, and does not start without them.
const TEMPORARY: &str = "client_body_temp_path client_body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; \
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;";

/// Starts nginx with `return 302` to one destination for all requests.
///
/// # Errors
/// Fails if nginx does not start.
pub async fn constant() -> Result<Arc<Server>> {
    yardstick("constant", "", &redirect(&target(0))).await
}

/// Starts nginx with a map of all links.
///
/// # Errors
/// Fails if nginx does not start.
pub async fn map(links: usize) -> Result<Arc<Server>> {
    let mut map =
        String::from("map_hash_max_size 262144; map_hash_bucket_size 128;\nmap $uri $target {\n");
    for number in 0..links {
        writeln!(map, "/{} {};", code(number), target(number))?;
    }
    map.push_str("}\n");
    yardstick("map", &map, &redirect("$target")).await
}

/// Starts nginx with `return 202` and a small body for all requests.
///
/// # Errors
/// Fails if nginx does not start.
pub async fn accepting() -> Result<Arc<Server>> {
    let answer = format!("default_type application/json; return 202 '{ACCEPTED}';");
    yardstick("accepting", "", &answer).await
}

fn redirect(target: &str) -> String {
    format!("add_header cache-control no-store; return 302 {target};")
}

async fn yardstick(name: &str, map: &str, answer: &str) -> Result<Arc<Server>> {
    // One worker per core, as the app has one thread per core. No log, as behind the gateway of a stack, where the app logs.
    start(name, |address, _| {
        Ok(format!(
            "worker_processes auto; pid nginx.pid; error_log stderr warn;\n\
             events {{ worker_connections 16384; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; server_tokens off;\n\
             {TEMPORARY}\n{map}\
             server {{ listen {address} backlog=4096; location / {{ {answer} }} }} }}\n"
        ))
    })
    .await
}

/// Starts nginx with a configuration, which gets its address and its folder.
///
/// # Errors
/// Fails if nginx does not start.
pub async fn start(
    name: &str,
    configuration: impl FnOnce(SocketAddr, &Path) -> Result<String>,
) -> Result<Arc<Server>> {
    let address = free_address()?;
    let folder = tempfile::Builder::new()
        .prefix(&format!("bench-{name}-"))
        .tempdir()
        .context("cannot create a folder for nginx: set TMPDIR to one that can be written")?;
    let configuration = configuration(address, folder.path())?;
    fs::write(folder.path().join("nginx.conf"), configuration)?;
    let [program] = servers::NGINX.addresses()?;
    let mut nginx = Command::new(program);
    nginx.arg("-p").arg(folder.path());
    // The workers of root would run as the user of the build, whom this machine may not have.
    let directives = match geteuid().is_root() {
        true => "daemon off; user root;",
        false => "daemon off;",
    };
    nginx.args(["-c", "nginx.conf", "-e", "stderr", "-g", directives]);
    let end = End::Ask {
        _folder: Some(folder),
    };
    Server::start(nginx, address, Stdio::null(), end).await
}
