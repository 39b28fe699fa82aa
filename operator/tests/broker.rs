//! Tests of the client for the management API against a real RabbitMQ. The in-memory API of the other tests is only as
//! good as these.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::time::Duration;

use http::{Method, Request, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::json;
use shortener_operator::{
    cli::dlq::letters::{self, Choice, Operation},
    rabbitmq::broker::{Broker, BrokerError, Login, counters, message::Message, transport},
};
use shortener_operator_core::model::topology::{
    DEAD_LETTERS, JOBS, QueueLimits, User, definitions, policies,
};
use shortener_testing::servers;
use tower::ServiceExt;

/// Returns the addresses of the management API and of the metrics.
fn addresses() -> [String; 2] {
    let [_, api, metrics] = servers::BROKER
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    [api, metrics].map(|address| format!("http://{address}"))
}

fn api() -> String {
    let [api, _] = addresses();
    api
}

fn limits(deliveries: i32) -> QueueLimits {
    QueueLimits {
        deliveries,
        dead_letters: 10_000,
        dead_letter_bytes: 64 << 20,
    }
}

fn broker(username: &str, password: &str) -> Broker {
    let login = Login {
        username: username.to_owned(),
        password: password.to_owned(),
    };
    Broker::new(transport::http(), &api(), login, Duration::from_secs(30))
}

/// Imports definitions, as a server does when it starts.
async fn import(definitions: String) {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}/api/definitions", api()))
        .header(header::AUTHORIZATION, "Basic Z3Vlc3Q6Z3Vlc3Q=")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(definitions)))
        .unwrap();
    let answer = transport::http().oneshot(request).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}

fn user<'a>(password: &'a str, salt: [u8; 4]) -> User<'a> {
    User {
        name: "shortener",
        password: password.as_bytes(),
        salt,
    }
}

fn job(id: &str) -> Message {
    serde_json::from_value(json!({
        "properties": {
            "message_id": id, "content_type": "application/json", "delivery_mode": 2,
            "headers": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        },
        "payload": format!("{{\"task\":\"resize\",\"id\":\"{id}\"}}"), "payload_encoding": "string",
    }))
    .unwrap()
}

fn ids(messages: &[Message]) -> Vec<&str> {
    let mut ids: Vec<&str> = messages.iter().filter_map(Message::id).collect();
    ids.sort_unstable();
    ids
}

/// Makes a job fail until the broker dead-letters it. Returns the number of its deliveries.
async fn fail(broker: &Broker) -> usize {
    let mut deliveries = 0;
    while !broker.peek(JOBS, 1).await.unwrap().is_empty() {
        deliveries += 1;
    }
    deliveries
}

/// Runs one case after another, because they share the queues.
#[tokio::test]
async fn a_real_broker_takes_definitions_limits_and_dead_letters_as_the_operator_writes_them() {
    import(definitions(&user("first", [1, 2, 3, 4]), limits(5))).await;
    let first = broker("shortener", "first");
    assert_eq!(first.alarm().await.unwrap(), None);
    let live = first.policies().await.unwrap();
    assert!(
        policies(limits(5))
            .iter()
            .all(|policy| live.contains(policy)),
        "{live:?}"
    );

    rotation_replaces_the_password().await;
    let broker = broker("shortener", "second");
    limits_change_without_a_restart(&broker).await;
    a_job_that_fails_is_delivered_as_often_as_the_limit_says(&broker).await;
    looking_often_changes_nothing(&broker).await;
    replay_and_drop_touch_only_what_was_named(&broker).await;
    a_full_dead_letter_queue_drops_the_oldest_and_counts_them(&broker).await;
}

async fn rotation_replaces_the_password() {
    import(definitions(&user("second", [5, 6, 7, 8]), limits(5))).await;
    let error = broker("shortener", "first").policies().await.unwrap_err();
    assert!(matches!(error, BrokerError::Denied), "{error}");
}

async fn limits_change_without_a_restart(broker: &Broker) {
    for policy in policies(limits(3)) {
        broker.set_policy(&policy).await.unwrap();
    }
    let live = broker.policies().await.unwrap();
    assert!(
        policies(limits(3))
            .iter()
            .all(|policy| live.contains(policy)),
        "{live:?}"
    );
}

async fn a_job_that_fails_is_delivered_as_often_as_the_limit_says(broker: &Broker) {
    for id in ["m1", "m2", "m3"] {
        broker.publish(JOBS, &job(id)).await.unwrap();
        assert_eq!(fail(broker).await, 3);
    }
}

/// Reads the dead letters often. RabbitMQ 4.0 or later deletes a message after 20 reads if no limit is set.
async fn looking_often_changes_nothing(broker: &Broker) {
    // Dead-lettering is asynchronous: it may follow some time after the last delivery.
    let mut letters = Vec::new();
    while letters.len() < 3 {
        letters = letters::first(broker, 10).await.unwrap();
    }
    for _ in 0..30 {
        letters = letters::first(broker, 10).await.unwrap();
        assert_eq!(ids(&letters), ["m1", "m2", "m3"]);
    }
    assert!(
        letters
            .iter()
            .all(|letter| letter.reason() == Some("delivery_limit") && letter.died_at().is_some())
    );
    assert_eq!(letters[0].task().as_deref(), Some("resize"));
}

async fn replay_and_drop_touch_only_what_was_named(broker: &Broker) {
    let chosen = |id: &str| Choice::Ids([id.to_owned()].into());
    let swept = letters::sweep(broker, chosen("m2"), Operation::Replay)
        .await
        .unwrap();
    assert_eq!((swept.done, swept.missing.len()), (1, 0));
    let jobs = broker.take(JOBS, 10).await.unwrap();
    assert_eq!(
        (ids(&jobs), &jobs[0].payload),
        (vec!["m2"], &job("m2").payload)
    );
    let headers = &jobs[0].properties.0["headers"];
    assert_eq!(
        headers["traceparent"],
        job("m2").properties.0["headers"]["traceparent"]
    );
    assert!(headers.get("x-death").is_none(), "{headers}");

    let swept = letters::sweep(broker, chosen("m1"), Operation::Drop)
        .await
        .unwrap();
    assert_eq!(swept.done, 1);
    let left = broker.peek(DEAD_LETTERS, 10).await.unwrap();
    assert_eq!(ids(&left), ["m3"]);
    assert_eq!(
        left[0].reason(),
        Some("delivery_limit"),
        "its reason is kept"
    );
    assert_eq!(broker.peek(JOBS, 10).await.unwrap(), []);
}

async fn dropped() -> u64 {
    let [_, metrics] = addresses();
    let limit = Duration::from_secs(30);
    let dropped = counters::dropped(&transport::http(), &metrics, limit).await;
    dropped.unwrap().unwrap()
}

/// Bounds the queue by number, then by size.
async fn a_full_dead_letter_queue_drops_the_oldest_and_counts_them(broker: &Broker) {
    broker.purge(DEAD_LETTERS).await.unwrap();
    let before = dropped().await;
    let tight = QueueLimits {
        dead_letters: 3,
        ..limits(5)
    };
    let [_, policy] = policies(tight);
    broker.set_policy(&policy).await.unwrap();
    // A policy takes effect asynchronously, so letters are added until it has.
    let mut count = 0;
    while dropped().await == before {
        broker
            .publish(DEAD_LETTERS, &job(&format!("d{count}")))
            .await
            .unwrap();
        count += 1;
    }
    broker.publish(DEAD_LETTERS, &job("next")).await.unwrap();
    let left = broker.peek(DEAD_LETTERS, 10).await.unwrap();
    assert_eq!(left.len(), 3);
    assert_eq!(left[2].id(), Some("next"), "the newest stay");
    assert_eq!(dropped().await - before, count + 1 - 3);

    let named = left[1].id().unwrap().to_owned();
    let choice = Choice::Ids([named.clone()].into());
    let swept = letters::sweep(broker, choice, Operation::Drop)
        .await
        .unwrap();
    assert_eq!(swept.done, 1);
    let left = broker.peek(DEAD_LETTERS, 10).await.unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(!ids(&left).contains(&named.as_str()), "{left:?}");

    let small = QueueLimits {
        dead_letter_bytes: 1 << 20,
        ..limits(5)
    };
    let [_, policy] = policies(small);
    broker.set_policy(&policy).await.unwrap();
    let before = dropped().await;
    let mut large = job("large");
    large.payload = format!("\"{}\"", "x".repeat(60_000));
    while dropped().await == before {
        broker.publish(DEAD_LETTERS, &large).await.unwrap();
    }
    let left = broker.peek(DEAD_LETTERS, 1000).await.unwrap();
    let bytes: usize = left.iter().map(|letter| letter.payload.len()).sum();
    assert!(bytes <= 1 << 20, "{bytes}");
    broker.purge(DEAD_LETTERS).await.unwrap();
}
