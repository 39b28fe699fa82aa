//! The vector store, a process of this machine.

use std::{path::Path, process::Command};

use anyhow::{Error, Result, ensure};

use super::{
    certificates,
    engine::script,
    lifetime::{Folder, UNTIL_INPUT_CLOSES},
};

const KEY: &str = "test-vector-key";

/// Starts a server and returns its URLs for gRPC and HTTP, and its API key.
pub(super) fn start(folder: &Folder) -> Result<[String; 3]> {
    let [grpc, http] = launch(folder, &[])?;
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    Ok([url(grpc), url(http), KEY.to_owned()])
}

/// Starts a server with this certificate and returns its gRPC port and its API key.
pub(super) fn start_with_tls(folder: &Folder, certificate: &str) -> Result<[String; 2]> {
    let file = |name| Ok::<_, Error>(certificates::path(name)?.display().to_string());
    let settings = [
        "QDRANT__SERVICE__ENABLE_TLS=true".to_owned(),
        format!("QDRANT__TLS__CERT={}", file(certificate)?),
        format!("QDRANT__TLS__KEY={}", file("server.key")?),
    ];
    let [grpc, _] = launch(folder, &settings)?;
    Ok([grpc.to_string(), KEY.to_owned()])
}

/// Starts a server with additional settings and returns its ports for gRPC and HTTP.
fn launch(folder: &Folder, settings: &[String]) -> Result<[u16; 2]> {
    let program = script("e2e/closed/qdrant.sh", &["path"])?;
    ensure!(
        Path::new(&program).exists(),
        "the stand-in for Qdrant is not compiled: run e2e/checks/stores.sh, which compiles it in some minutes"
    );
    let mut server = Command::new("sh");
    server
        .args(["-c", UNTIL_INPUT_CLOSES, "sh", "env", "-i", "--chdir"])
        .arg(folder.path(""))
        .arg(format!("QDRANT__SERVICE__API_KEY={KEY}"))
        .arg("QDRANT__SERVICE__HOST=127.0.0.1")
        // The server listens on free ports and logs them.
        .args([
            "QDRANT__SERVICE__HTTP_PORT=0",
            "QDRANT__SERVICE__GRPC_PORT=0",
        ])
        .args(settings)
        .arg(program);
    let ports = folder.start(&server)?;
    ports.ready(|log| Some([port_of("gRPC", log)?, port_of("HTTP", log)?]))
}

/// Returns the port of a protocol, once the log names it.
fn port_of(protocol: &str, log: &str) -> Option<u16> {
    let announcement = format!("Qdrant {protocol} listening on ");
    // A line without an end may still grow.
    let (complete, _) = log.rsplit_once('\n')?;
    let line = complete
        .lines()
        .find_map(|line| line.split_once(&announcement));
    line?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_known_once_its_line_is_complete() {
        let log = "[INFO] Qdrant HTTP listening on 1234\n[INFO] Qdrant gRPC listening on 56";
        assert_eq!(port_of("HTTP", log), Some(1234));
        assert_eq!(port_of("gRPC", log), None);
        assert_eq!(port_of("gRPC", &format!("{log}78\n")), Some(5678));
    }
}
