//! An application in this process, which jobs come from.

use std::net::SocketAddr;

use clap::Parser;
use serde_json::Value;
use shortener_app::{
    code::CodeSpace,
    config::{Cli, Command},
    metrics::Metrics,
    run::Server,
};
use shortener_common::telemetry::Service;
use shortener_testing::{
    broker::until,
    client::{post_bytes, send},
};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

/// As whom it exports.
const SERVICE: Service<'_> = Service {
    name: "app",
    version: "0.0.0",
    host: "replica-7",
};

/// The public address of an application with these further flags, that serves until the test ends.
pub async fn start(database: &PgConnectOptions, queue_url: &str, flags: &[String]) -> SocketAddr {
    let arguments = [
        "app",
        "serve",
        "--listen=127.0.0.1:0",
        "--internal-listen=127.0.0.1:0",
    ];
    let stores = [
        format!("--database-url={}", database.to_url_lossy()),
        format!("--queue-url={queue_url}"),
    ];
    let arguments = arguments.map(ToOwned::to_owned).into_iter();
    let arguments = arguments.chain(stores).chain(flags.iter().cloned());
    let Command::Serve(config) = Cli::parse_from(arguments).command else {
        unreachable!()
    };
    let telemetry = config.telemetry.start(SERVICE).unwrap();
    let (metrics, tracer) = (Metrics::default(), telemetry.tracer());
    let server = Server::bind(*config, metrics, tracer, CodeSpace::default());
    let server = server.await.unwrap();
    let (public, _) = server.addresses().unwrap();
    tokio::spawn(async {
        server.run(std::future::pending()).await;
        telemetry.shutdown().await;
    });
    public
}

/// What it answers to a job with these headers, once it has found the broker.
pub async fn accepts(public: SocketAddr, headers: &str) -> Value {
    let request = post_bytes("/jobs", headers, br#"{"task":"email","id":1}"#);
    until("a job to be accepted", async || {
        let response = send(public, &request).await;
        (response.status == 202)
            .then(|| response.json())
            .ok_or(response.text())
    })
    .await
}
