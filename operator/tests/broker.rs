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
    rabbitmq::broker::{Broker, BrokerError, Login, message::Message, transport},
};
use shortener_operator_core::model::topology::{DEAD_LETTERS, JOBS, User, definitions, policies};
use shortener_testing::servers;
use tower::ServiceExt;

fn api() -> String {
    let [_, api] = servers::BROKER
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    format!("http://{api}")
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
    import(definitions(&user("first", [1, 2, 3, 4]), 5)).await;
    let first = broker("shortener", "first");
    assert_eq!(first.alarm().await.unwrap(), None);
    let live = first.policies().await.unwrap();
    assert!(
        policies(5).iter().all(|policy| live.contains(policy)),
        "{live:?}"
    );

    rotation_replaces_the_password().await;
    let broker = broker("shortener", "second");
    limits_change_without_a_restart(&broker).await;
    a_job_that_fails_is_delivered_as_often_as_the_limit_says(&broker).await;
    looking_often_changes_nothing(&broker).await;
    replay_and_drop_touch_only_what_was_named(&broker).await;
}

async fn rotation_replaces_the_password() {
    import(definitions(&user("second", [5, 6, 7, 8]), 5)).await;
    let error = broker("shortener", "first").policies().await.unwrap_err();
    assert!(matches!(error, BrokerError::Denied), "{error}");
}

async fn limits_change_without_a_restart(broker: &Broker) {
    for policy in policies(3) {
        broker.set_policy(&policy).await.unwrap();
    }
    let live = broker.policies().await.unwrap();
    assert!(
        policies(3).iter().all(|policy| live.contains(policy)),
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
