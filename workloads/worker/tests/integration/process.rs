//! The binary: log lines, signals and exit codes.

use shortener_common::{
    queue::{decision::Decision, job, origin::Origin},
    trace::TraceContext,
};
use shortener_testing::{broker::Broker, database::TestDatabase, process::Process};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};
use tokio::process::Command;
use uuid::Uuid;

use crate::support::prepare;

const BINARY: &str = env!("CARGO_BIN_EXE_worker");

/// Returns the command of the worker as in a pod.
pub fn command(database: &PgConnectOptions, broker: &Broker) -> Command {
    let mut command = Command::new(BINARY);
    command
        .env("DATABASE_URL", database.to_url_lossy().as_str())
        .env("QUEUE_URL", broker.url())
        .env("WORKER_INTERNAL_LISTEN", "127.0.0.1:0")
        .env("HOSTNAME", "worker-9")
        .env("RUST_LOG", "info");
    command
}

/// Starts the worker as a process.
pub fn start(database: &PgConnectOptions, broker: &Broker) -> Process {
    Process::spawn(&mut command(database, broker))
}

#[tokio::test]
async fn a_job_is_two_log_lines_in_the_trace_of_its_request() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let mut process = start(&database, &broker);
    process.event("queue_up").await;
    let (id, trace) = (Uuid::now_v7(), TraceContext::continuing(None));
    let properties = job::properties(id, &Origin::Internal, &Decision::default(), trace, None);
    broker
        .publish(properties, br#"{"task":"email","id":1}"#)
        .await;
    let started = process.event("job_start").await;
    let done = process.event("job_done").await;
    for (line, body) in [(&started, "job_start"), (&done, "job_done")] {
        assert_eq!(line["body"], body);
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["host"], "worker-9");
        assert_eq!(line["trace_id"], trace.trace_id.to_string());
        assert_eq!(line["span_id"].as_str().unwrap().len(), 16);
        assert_eq!(line["job.id"], id.to_string());
        assert_eq!(line["job.client_id"], "1");
        assert_eq!(line["job.task"], "email");
    }
    assert_eq!(started["span_id"], done["span_id"]);
    assert!(done["duration"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn sigterm_ends_the_process_cleanly_after_the_job_in_progress() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let mut process = start(&database, &broker);
    process.event("queue_up").await;
    let trace = TraceContext::continuing(None);
    let properties = job::properties(
        Uuid::now_v7(),
        &Origin::Internal,
        &Decision::default(),
        trace,
        None,
    );
    broker
        .publish(properties, br#"{"task":"wait","ms":1000}"#)
        .await;
    process.event("job_start").await;
    process.terminate().await;
    process.event("draining").await;
    process.event("job_done").await;
    assert_eq!(process.event("stopped").await["complete"], true);
    assert!(process.exit().await.success());
    broker.wait_for("jobs", (0, 0)).await;
}

#[tokio::test]
async fn malformed_settings_stop_the_process_with_a_message() {
    for (name, value) in [
        ("QUEUE_URL", ""),
        ("QUEUE_URL", "http://broker"),
        ("DATABASE_URL", "nonsense"),
        ("JOB_TIMEOUT_SECONDS", "soon"),
        ("RUST_LOG", "a=b=c"),
    ] {
        let output = Command::new(BINARY)
            .env("DATABASE_URL", "postgres://localhost/x")
            .env("QUEUE_URL", "amqp://localhost")
            .env("WORKER_INTERNAL_LISTEN", "127.0.0.1:0")
            .env(name, value)
            .output();
        let output = output.await.unwrap();
        assert!(!output.status.success(), "{name}={value}");
        let message = String::from_utf8(output.stderr).unwrap();
        let message = message.to_uppercase().replace('-', "_");
        assert!(message.contains(name), "{name} is not named in {message}");
    }
}
