//! The yardsticks: nginx with the same response to every request, and nginx with a map of all links.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use shortener_testing::servers;
use tempfile::TempDir;

use crate::{
    links::{code, target},
    server::{Server, free_address},
};

/// The time limit of the shutdown.
const END: Duration = Duration::from_secs(10);

/// A server and the directory of its configuration, which is removed with it.
pub struct Nginx {
    /// The server.
    pub server: Server,
    directory: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A killed nginx leaves its workers behind; a stopped one ends them.
        let Ok(mut stop) = nginx(self.directory.path()) else {
            return;
        };
        let told = stop.args(["-s", "stop"]).status();
        let begin = Instant::now();
        while told.is_ok() && self.server.runs() && begin.elapsed() < END {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Starts nginx with `return 302` to one destination for all requests.
///
/// # Errors
/// Fails if nginx does not start.
pub async fn constant() -> Result<Nginx> {
    start("constant", "", &target(0)).await
}

/// Starts nginx with a map of all links.
///
/// # Errors
/// Fails if nginx does not start.
pub async fn map(links: usize) -> Result<Nginx> {
    let mut map =
        String::from("map_hash_max_size 262144; map_hash_bucket_size 128;\nmap $uri $target {\n");
    for number in 0..links {
        writeln!(map, "/{} {};", code(number), target(number))?;
    }
    map.push_str("}\n");
    start("map", &map, "$target").await
}

async fn start(name: &str, map: &str, target: &str) -> Result<Nginx> {
    let address = free_address()?;
    let directory = tempfile::Builder::new()
        .prefix(&format!("bench-{name}-"))
        .tempdir()
        .context("cannot create a directory for nginx")?;
    // One worker per core, as the app has one thread per core. No log, because the app's log is not read either.
    let configuration = format!(
        "worker_processes auto; daemon off; pid nginx.pid; error_log stderr warn;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; server_tokens off;\n{map}\
         server {{ listen {address}; location / {{ add_header cache-control no-store; return 302 {target}; }} }} }}\n"
    );
    fs::write(directory.path().join("nginx.conf"), configuration)?;
    let server = Server::start(nginx(directory.path())?.into(), address).await?;
    Ok(Nginx { server, directory })
}

fn nginx(directory: &Path) -> Result<Command> {
    let [program] = servers::NGINX.addresses()?;
    let mut nginx = Command::new(program);
    nginx.arg("-p").arg(directory);
    nginx.args(["-c", "nginx.conf", "-e", "stderr"]);
    Ok(nginx)
}
