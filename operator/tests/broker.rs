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
    message::Delivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicGetOptions,
        BasicNackOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
        ExchangeDeclareOptions, QueueDeclareOptions, QueuePurgeOptions,
    },
    types::FieldTable,
};
use serde_json::json;
use shortener_common::{
    backends::Fault,
    queue::{self, BrokerConnection, dead_letter::DeadLetter, topology},
    tls::ClientTls,
};
use shortener_operator::{
    rabbitmq::broker::{Broker, BrokerError, Login, MAX_ANSWER, counters},
    transport,
};
use shortener_operator_core::model::topology::{
    DEAD_LETTERS, JOBS, QueueLimits, User, Users, definitions, policies,
};
use shortener_testing::servers;
use tower::ServiceExt;

/// Name of the programs' connection.
const CLIENT: &str = "test";
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
    Broker::new(transport::http(MAX_ANSWER), &api(), Login::of(user), limit)
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
    let answer = transport::http(MAX_ANSWER).oneshot(request).await.unwrap();
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

/// Returns the identifier of a job.
fn id(number: u8) -> String {
    format!("01920000-0000-7000-8000-0000000000{number:02x}")
}

/// Receives every message of a queue; they stay at its head.
async fn look(channel: &Channel, queue: &str) -> Vec<Delivery> {
    let mut messages = Vec::new();
    while let Some(message) = get(channel, queue).await {
        messages.push(message);
    }
    let back = BasicNackOptions {
        multiple: true,
        requeue: true,
    };
    channel.basic_nack(0, back).await.unwrap();
    messages
}

async fn get(channel: &Channel, queue: &str) -> Option<Delivery> {
    let message = channel.basic_get(queue.into(), BasicGetOptions::default());
    message.await.unwrap().map(|message| message.delivery)
}

fn ids(messages: &[Delivery]) -> Vec<String> {
    let id = |message: &Delivery| {
        let id = message.properties.message_id().as_ref()?;
        Some(id.as_str().to_owned())
    };
    let mut ids: Vec<String> = messages.iter().filter_map(id).collect();
    ids.sort_unstable();
    ids
}

/// Makes a job fail until the broker dead-letters it. Returns the number of its deliveries.
async fn fail(channel: &Channel) -> usize {
    let mut deliveries = 0;
    while let Some(job) = get(channel, JOBS).await {
        let again = BasicRejectOptions { requeue: true };
        job.reject(again).await.unwrap();
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
    let connection = connect(&users(SECOND).programs).await;
    topology::declare(&connection).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let confirms = channel.confirm_select(ConfirmSelectOptions::default());
    confirms.await.unwrap();
    the_programs_do_their_work_and_administrate_nothing(&programs, &channel).await;
    only_what_is_theirs(&connection).await;
    the_operator_watches_and_touches_no_message(&operator, &channel).await;
    a_client_is_busy_until_it_acknowledges_its_message(&operator, &channel).await;
    limits_change_without_a_restart(&operator).await;
    a_job_that_fails_is_delivered_as_often_as_the_limit_says(&channel).await;
    looking_often_changes_nothing(&channel).await;
    a_full_dead_letter_queue_drops_the_oldest_and_counts_them(&channel, &operator).await;
    connection.close(200, "done".into()).await.unwrap();
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
async fn connect(user: &User<'_>) -> BrokerConnection {
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
    queue::connect(&broker, CLIENT).await.unwrap()
}

/// Sends a message to a queue and waits until the broker has confirmed it.
async fn send(channel: &Channel, queue: &str, number: u8, body: &[u8]) {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let message = BasicProperties::default().with_message_id(id(number).into());
    let confirm = channel.basic_publish("".into(), queue.into(), options, body, message);
    let confirmation = confirm.await.unwrap().await.unwrap();
    assert!(confirmation.is_ack(), "{confirmation:?}");
}

/// Publishes a job, consumes it, and takes a dead letter, as the programs do.
async fn the_programs_do_their_work_and_administrate_nothing(programs: &Broker, channel: &Channel) {
    send(channel, JOBS, 0, b"{}").await;
    let options = BasicConsumeOptions::default();
    let jobs = channel.basic_consume(JOBS.into(), "worker".into(), options, FieldTable::default());
    let mut jobs = jobs.await.unwrap();
    let job = jobs.next().await.unwrap().unwrap();
    job.ack(BasicAckOptions::default()).await.unwrap();
    let stopped = channel.basic_cancel("worker".into(), BasicCancelOptions::default());
    stopped.await.unwrap();
    send(channel, DEAD_LETTERS, 0, b"{}").await;
    let letter = get(channel, DEAD_LETTERS).await.unwrap();
    letter.ack(BasicAckOptions::default()).await.unwrap();
    is_no_administrator(&users(SECOND).programs).await;
    let [policy, _] = policies(limits(1));
    assert!(is_denied(programs.set_policy(&policy).await));
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

async fn the_operator_watches_and_touches_no_message(operator: &Broker, channel: &Channel) {
    let user = users(SECOND).operator;
    is_no_administrator(&user).await;
    send(channel, JOBS, 0, b"{}").await;
    // A broker collects the figures of a queue every few seconds.
    while operator.depths().await.unwrap().jobs.is_none() {}
    let Login { username, password } = Login::of(&user);
    let message = json!({"properties": {}, "routing_key": JOBS, "payload": "{}", "payload_encoding": "string"});
    let taken = json!({"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"});
    for (method, path, body) in [
        (Method::POST, "exchanges/%2F/amq.default/publish", message),
        (Method::POST, "queues/%2F/jobs/get", taken),
        (Method::DELETE, "queues/%2F/jobs/contents", json!({})),
    ] {
        let status = send_as(&username, &password, method, path, body.to_string()).await;
        assert!(status.is_client_error(), "{path}: {status}");
    }
    assert_eq!(ids(&look(channel, JOBS).await), [id(0)]);
}

async fn a_client_is_busy_until_it_acknowledges_its_message(operator: &Broker, channel: &Channel) {
    let job = get(channel, JOBS).await.unwrap();
    while !operator.busy_clients().await.unwrap().contains(CLIENT) {}
    job.ack(BasicAckOptions::default()).await.unwrap();
    while operator.busy_clients().await.unwrap().contains(CLIENT) {}
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

async fn a_job_that_fails_is_delivered_as_often_as_the_limit_says(channel: &Channel) {
    for number in 1..=3 {
        send(channel, JOBS, number, b"{}").await;
        assert_eq!(fail(channel).await, 3);
    }
}

/// Reads the dead letters often. RabbitMQ 4.0 or later deletes a message after 20 reads if no limit is set.
async fn looking_often_changes_nothing(channel: &Channel) {
    // Dead-lettering is asynchronous: it may follow some time after the last delivery.
    let mut letters = Vec::new();
    while letters.len() < 3 {
        letters = look(channel, DEAD_LETTERS).await;
    }
    for _ in 0..30 {
        letters = look(channel, DEAD_LETTERS).await;
        assert_eq!(ids(&letters), [1, 2, 3].map(id));
    }
    for letter in letters {
        let letter = DeadLetter::read(&letter.properties, &letter.data);
        assert_eq!(letter.reason.as_deref(), Some("delivery_limit"));
        assert!(letter.died_at.is_some());
    }
}

async fn dropped() -> u64 {
    let [_, metrics] = addresses();
    let limit = Duration::from_secs(30);
    let dropped = counters::dropped(&transport::http(MAX_ANSWER), &metrics, limit).await;
    dropped.unwrap().unwrap()
}

/// Bounds the queue by number, then by size.
async fn a_full_dead_letter_queue_drops_the_oldest_and_counts_them(
    channel: &Channel,
    operator: &Broker,
) {
    empty(channel).await;
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
        send(channel, DEAD_LETTERS, 0, b"{}").await;
        count += 1;
    }
    send(channel, DEAD_LETTERS, 1, b"{}").await;
    let left = look(channel, DEAD_LETTERS).await;
    assert_eq!(ids(&left), [0, 0, 1].map(id), "the newest stay");
    assert_eq!(dropped().await - before, count + 1 - 3);

    let small = QueueLimits {
        dead_letter_bytes: 1 << 20,
        ..limits(5)
    };
    let [_, policy] = policies(small);
    operator.set_policy(&policy).await.unwrap();
    let before = dropped().await;
    let large = vec![b'x'; 60_000];
    while dropped().await == before {
        send(channel, DEAD_LETTERS, 2, &large).await;
    }
    let left = look(channel, DEAD_LETTERS).await;
    let bytes: usize = left.iter().map(|letter| letter.data.len()).sum();
    assert!(bytes <= 1 << 20, "{bytes}");
    empty(channel).await;
}

async fn empty(channel: &Channel) {
    let purged = channel.queue_purge(DEAD_LETTERS.into(), QueuePurgeOptions::default());
    purged.await.unwrap();
}
