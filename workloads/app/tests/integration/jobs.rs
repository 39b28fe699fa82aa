//! Accepting jobs: a 202 means that the broker has the job, and no other response affects links.

mod faults;
mod idempotency;
mod publisher;
mod requests;
mod status;
mod teardown;

use std::{collections::BTreeSet, net::SocketAddr};

use shortener_common::memory::DEFAULT_LIMIT;
use shortener_testing::{
    broker::{Broker, until},
    metrics,
};
use sqlx::postgres::PgConnectOptions;

use crate::{
    client::{Response, post, post_bytes, send},
    support::App,
};

/// The example of the specification.
const JOB: &str = r#"{"task":"email","id":1}"#;

/// Starts an app with the default memory limit that publishes to this broker, and waits until it is connected.
async fn app_with(database: &PgConnectOptions, url: String) -> App {
    let app = App::start_with(database, |config| {
        config.queue.queue_url = Some(url);
        config.memory.memory_limit_bytes = Some(DEFAULT_LIMIT);
    })
    .await;
    metrics::wait_for(app.internal, "queue_up 1").await;
    app
}

async fn enqueue(address: SocketAddr, headers: &str, body: &str) -> Response {
    send(address, post_bytes("/jobs", headers, body.as_bytes())).await
}

fn accepted(response: &Response) -> String {
    assert_eq!(response.status, 202, "{response:?}");
    let answer = response.json();
    assert_eq!(answer["status"], "enqueued");
    answer["id"].as_str().unwrap().to_owned()
}

fn refused(response: &Response) {
    response.problem(503, "queue-unavailable");
    let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
}

/// Sends jobs until one is accepted.
async fn recovered(app: &App) -> String {
    let response = until("a job to be accepted", async || {
        let response = post(app.public, "/jobs", JOB).await;
        if response.status != 202 {
            refused(&response);
            return Err(response.text());
        }
        Ok(response)
    })
    .await;
    accepted(&response)
}

/// Empties the queue; returns the identifiers of its messages, which must be unique.
async fn drain(broker: &Broker) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    while let Some(message) = broker.get("jobs").await {
        let id = message.properties.message_id().clone().unwrap();
        assert!(ids.insert(id.as_str().to_owned()), "{id} occurs twice");
        message.ack(Default::default()).await.unwrap();
    }
    ids
}

/// Empties the queue; returns the identifiers of its messages, which may be duplicates.
async fn drain_all(broker: &Broker) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    while let Some(message) = broker.get("jobs").await {
        ids.insert(message.properties.message_id().clone().unwrap().to_string());
        message.ack(Default::default()).await.unwrap();
    }
    ids
}
