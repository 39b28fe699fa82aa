//! An app in this process, as the source of jobs.

use std::net::SocketAddr;

use clap::Parser;
use serde_json::Value;
use shortener_app::{
    code::CodeSpace,
    config::{Cli, Command},
    metrics::Metrics,
    run::Server,
    state::Observed,
};
use shortener_common::telemetry::Service;
use shortener_testing::{
    broker::until,
    client::{post_bytes, send},
};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

/// The identity in its exports.
const SERVICE: Service<'_> = Service {
    name: "app",
    version: "0.0.0",
    host: "replica-7",
};

/// Starts an app with these further flags, which serves until the test ends; returns its public address.
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
    let memory = config.divide_memory().unwrap();
    let telemetry = config.telemetry.start(SERVICE, &memory).unwrap();
    let observed = Observed {
        metrics: Metrics::default(),
        tracer: telemetry.tracer(),
        memory,
    };
    let server = Server::bind(*config, observed, CodeSpace::default());
    let server = server.await.unwrap();
    let (public, _) = server.addresses().unwrap();
    tokio::spawn(async {
        server.run(std::future::pending()).await;
        telemetry.shutdown().await;
    });
    public
}

/// Posts a job with these headers until it is accepted; returns the response.
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
