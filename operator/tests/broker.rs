//! Tests of the definitions of a broker, and of the client for the management API, against a real RabbitMQ. The in-memory
//! API of the other tests is only as good as these.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::StreamExt;
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use lapin::{
    BasicProperties, Channel, Connection, ExchangeKind,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions,
        ConfirmSelectOptions, ExchangeDeclareOptions, QueueDeclareOptions,
    },
    types::FieldTable,
};
use serde_json::json;
use shortener_common::{
    backends::Fault,
    queue::{self, topology},
    tls::ClientTls,
};
use shortener_operator::{
    cli::dlq::letters::{self, Choice, Operation},
    rabbitmq::broker::{Broker, BrokerError, Login, counters, message::Message},
    transport,
};
use shortener_operator_core::model::topology::{
    DEAD_LETTERS, JOBS, QueueLimits, User, Users, definitions, policies,
};
use shortener_testing::servers;
use tower::ServiceExt;

/// Passwords of the programs and of the operator.
const FIRST: [&str; 2] = ["first", "first of the operator"];
/// The passwords after a rotation of both.
const SECOND: [&str; 2] = ["second", "second of the operator"];

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

fn broker(user: &User<'_>) -> Broker {
    let limit = Duration::from_secs(30);
    Broker::new(transport::http(), &api(), Login::of(user), limit)
}

/// Returns the clients of the programs' user and of the operator's.
fn brokers(passwords: [&'static str; 2]) -> [Broker; 2] {
    let Users { programs, operator } = users(passwords);
    [broker(&programs), broker(&operator)]
}

/// Imports definitions, as a server does when it starts.
async fn import(definitions: String) {
    as_administrator(Method::POST, "definitions", definitions).await;
}

/// Sends a request that must succeed.
async fn as_administrator(method: Method, path: &str, body: String) {
    let status = send_as("guest", "guest", method, path, body).await;
    assert!(status.is_success(), "{path}: {status}");
}

/// Sends a request that an administrator alone may send.
async fn is_no_administrator(user: &User<'_>) {
    let Login { username, password } = Login::of(user);
    let body = "{}".to_owned();
    let status = send_as(&username, &password, Method::POST, "definitions", body).await;
    let denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
    assert!(denied.contains(&status), "{username}: {status}");
}

async fn send_as(
    username: &str,
    password: &str,
    method: Method,
    path: &str,
    body: String,
) -> StatusCode {
    let pair = STANDARD.encode(format!("{username}:{password}"));
    let request = Request::builder()
        .method(method)
        .uri(format!("{}/api/{path}", api()))
        .header(header::AUTHORIZATION, format!("Basic {pair}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let answer = transport::http().oneshot(request).await.unwrap();
    answer.status()
}

fn users([programs, operator]: [&'static str; 2]) -> Users<'static> {
    Users {
        programs: User {
            name: "shortener".into(),
            password: programs.as_bytes(),
            salt: [1, 2, 3, 4],
        },
        operator: User {
            name: "shortener-operator".into(),
            password: operator.as_bytes(),
            salt: [5, 6, 7, 8],
        },
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
    import(definitions(&users(FIRST), limits(5))).await;
    let [_, operator] = brokers(FIRST);
    assert_eq!(operator.alarm().await.unwrap(), None);
    let live = operator.policies().await.unwrap();
    assert!(
        policies(limits(5))
            .iter()
            .all(|policy| live.contains(policy)),
        "{live:?}"
    );

    rotation_replaces_the_passwords().await;
    let [programs, operator] = brokers(SECOND);
    the_programs_do_their_work_and_administrate_nothing(&programs).await;
    the_operator_watches_and_touches_no_message(&operator, &programs).await;
    limits_change_without_a_restart(&operator).await;
    a_job_that_fails_is_delivered_as_often_as_the_limit_says(&programs).await;
    looking_often_changes_nothing(&programs).await;
    replay_and_drop_touch_only_what_was_named(&programs).await;
    a_full_dead_letter_queue_drops_the_oldest_and_counts_them(&programs, &operator).await;
}

fn is_denied<T>(answer: Result<T, BrokerError>) -> bool {
    matches!(answer, Err(BrokerError::Denied))
}

async fn rotation_replaces_the_passwords() {
    import(definitions(&users(SECOND), limits(5))).await;
    let [programs, operator] = brokers(FIRST);
    assert!(is_denied(programs.depths().await));
    assert!(is_denied(operator.policies().await));
}

/// Connects like the app and the workers.
async fn connect(user: &User<'_>) -> Connection {
    let [url, _, _] = servers::BROKER
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    let mut uri: lapin::uri::AMQPUri = format!("{url}/%2f").parse().unwrap();
    let Login { username, password } = Login::of(user);
    uri.authority.userinfo.username = username;
    uri.authority.userinfo.password = password;
    let broker = queue::Broker {
        uri,
        tls: ClientTls::default(),
    };
    queue::connect(&broker, "test").await.unwrap()
}

/// Sends a message to a queue and waits until the broker has confirmed it.
async fn send(channel: &Channel, queue: &str) {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let message = BasicProperties::default();
    let confirm = channel.basic_publish("".into(), queue.into(), options, b"{}", message);
    let confirmation = confirm.await.unwrap().await.unwrap();
    assert!(confirmation.is_ack(), "{confirmation:?}");
}

/// Declares the topology, publishes a job, consumes it, and takes a dead letter, as the programs do.
async fn the_programs_do_their_work_and_administrate_nothing(programs: &Broker) {
    let connection = connect(&users(SECOND).programs).await;
    topology::declare(&connection).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let confirms = channel.confirm_select(ConfirmSelectOptions::default());
    confirms.await.unwrap();
    send(&channel, JOBS).await;
    let options = BasicConsumeOptions::default();
    let jobs = channel.basic_consume(JOBS.into(), "worker".into(), options, FieldTable::default());
    let mut jobs = jobs.await.unwrap();
    let job = jobs.next().await.unwrap().unwrap();
    let taken = channel.basic_ack(job.delivery_tag, BasicAckOptions::default());
    taken.await.unwrap();
    send(&channel, DEAD_LETTERS).await;
    let letter = channel.basic_get(DEAD_LETTERS.into(), BasicGetOptions::default());
    let letter = letter.await.unwrap().unwrap().delivery;
    let taken = channel.basic_ack(letter.delivery_tag, BasicAckOptions::default());
    taken.await.unwrap();

    only_what_is_theirs(&connection).await;
    is_no_administrator(&users(SECOND).programs).await;
    let [policy, _] = policies(limits(1));
    assert!(is_denied(programs.set_policy(&policy).await));
    connection.close(200, "done".into()).await.unwrap();
}

/// An error ends its channel, so each attempt has one of its own.
async fn only_what_is_theirs(connection: &Connection) {
    let foreign = json!({"durable": true}).to_string();
    as_administrator(Method::PUT, "queues/%2F/foreign", foreign).await;
    let channel = connection.create_channel().await.unwrap();
    let declared = channel.queue_declare(
        "foreign".into(),
        QueueDeclareOptions::durable(),
        FieldTable::default(),
    );
    let error = declared.await.unwrap_err();
    assert_eq!(queue::fault(&error), Some(Fault::Denied), "{error}");
    let channel = connection.create_channel().await.unwrap();
    let declared = channel.exchange_declare(
        "foreign".into(),
        ExchangeKind::Fanout,
        ExchangeDeclareOptions::default(),
        FieldTable::default(),
    );
    let error = declared.await.unwrap_err();
    assert_eq!(queue::fault(&error), Some(Fault::Denied), "{error}");
    let channel = connection.create_channel().await.unwrap();
    let read = channel.basic_get("foreign".into(), BasicGetOptions::default());
    let error = read.await.unwrap_err();
    assert_eq!(queue::fault(&error), Some(Fault::Denied), "{error}");
    as_administrator(Method::DELETE, "queues/%2F/foreign", String::new()).await;
}

async fn the_operator_watches_and_touches_no_message(operator: &Broker, programs: &Broker) {
    is_no_administrator(&users(SECOND).operator).await;
    programs.publish(JOBS, &job("m0")).await.unwrap();
    // A broker collects the figures of a queue every few seconds.
    while operator.depths().await.unwrap().jobs.is_none() {}
    for refused in [
        operator.publish(JOBS, &job("m1")).await,
        operator.peek(JOBS, 1).await.map(drop),
        operator.take(JOBS, 1).await.map(drop),
        operator.purge(JOBS).await,
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, BrokerError::Denied | BrokerError::Refused { .. }),
            "{error}"
        );
    }
    assert_eq!(ids(&programs.take(JOBS, 10).await.unwrap()), ["m0"]);
}

async fn limits_change_without_a_restart(operator: &Broker) {
    for policy in policies(limits(3)) {
        operator.set_policy(&policy).await.unwrap();
    }
    let live = operator.policies().await.unwrap();
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
async fn a_full_dead_letter_queue_drops_the_oldest_and_counts_them(
    broker: &Broker,
    operator: &Broker,
) {
    broker.purge(DEAD_LETTERS).await.unwrap();
    let before = dropped().await;
    let tight = QueueLimits {
        dead_letters: 3,
        ..limits(5)
    };
    let [_, policy] = policies(tight);
    operator.set_policy(&policy).await.unwrap();
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
    operator.set_policy(&policy).await.unwrap();
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
