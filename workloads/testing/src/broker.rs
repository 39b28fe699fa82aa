//! A separate virtual host at the RabbitMQ of the tests.

use std::{net::SocketAddr, time::Duration};

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions},
    types::FieldTable,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    client::{Response, exchange, json_bytes},
    servers,
};

/// Far above every promised time: a wait this long is a bug and not a busy machine.
const GENEROUS: Duration = Duration::from_secs(60);

/// A virtual host, empty at first, with the operator's policy.
pub struct Broker {
    vhost: String,
    address: SocketAddr,
    api: SocketAddr,
    /// A connection for the test itself.
    pub channel: Channel,
    _connection: Connection,
}

impl Broker {
    /// Creates a virtual host.
    pub async fn new() -> Self {
        let [url, api, _] = servers::BROKER
            .addresses()
            .unwrap_or_else(|error| panic!("{error}"));
        let api = api.parse().unwrap();
        let address = url.rsplit('@').next().unwrap().parse().unwrap();
        let vhost = Uuid::now_v7().to_string();
        let created = ask(api, "PUT", &format!("/api/vhosts/{vhost}"), "").await;
        assert_eq!(created.status, 201, "{created:?}");
        let url = format!("{url}/{vhost}");
        let connection = Connection::connect(&url, ConnectionProperties::default());
        let connection = connection.await.unwrap();
        let broker = Self {
            channel: connection.create_channel().await.unwrap(),
            _connection: connection,
            vhost,
            address,
            api,
        };
        broker.policy(json!({})).await;
        broker
    }

    /// Returns `host:port`, for a proxy.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns the URL for the settings of a program.
    pub fn url(&self) -> String {
        self.url_at(self.address)
    }

    /// Returns the URL through another address, such as that of a proxy.
    pub fn url_at(&self, address: SocketAddr) -> String {
        format!("amqp://guest:guest@{address}/{}", self.vhost)
    }

    /// Sets the operator's policy, with these changes.
    pub async fn policy(&self, changes: Value) {
        let mut definition = json!({
            // Returns to the queue, so five deliveries.
            "delivery-limit": 4,
            "dead-letter-exchange": "jobs.dlx",
            "dead-letter-strategy": "at-least-once",
            "overflow": "reject-publish",
            "max-length": 100_000,
        });
        for (name, value) in changes.as_object().unwrap() {
            definition[name] = value.clone();
        }
        let policy = json!({"pattern": "^jobs$", "apply-to": "queues", "definition": definition});
        let path = format!("/api/policies/{}/shortener-jobs", self.vhost);
        let set = ask(self.api, "PUT", &path, &policy.to_string()).await;
        assert!([201, 204].contains(&set.status), "{set:?}");
    }

    /// Deletes a queue or an exchange: `queues/jobs`, `exchanges/jobs.dlx`.
    pub async fn delete(&self, object: &str) {
        let (kind, name) = object.split_once('/').unwrap();
        let path = format!("/api/{kind}/{}/{name}", self.vhost);
        let deleted = ask(self.api, "DELETE", &path, "").await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
    }

    /// Returns true if the queue exists.
    pub async fn has(&self, queue: &str) -> bool {
        let path = format!("/api/queues/{}/{queue}", self.vhost);
        ask(self.api, "GET", &path, "").await.status == 200
    }

    /// Returns the number of ready messages and the number of consumers.
    pub async fn counts(&self, queue: &str) -> (u32, u32) {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = self
            .channel
            .queue_declare(queue.into(), passive, FieldTable::default());
        let queue = queue.await.unwrap();
        (queue.message_count(), queue.consumer_count())
    }

    /// Waits until the queue has this many ready messages and consumers.
    pub async fn wait_for(&self, queue: &str, counts: (u32, u32)) {
        until(&format!("{counts:?} in {queue}"), async || {
            let now = self.counts(queue).await;
            (now == counts).then_some(()).ok_or(format!("{now:?}"))
        })
        .await;
    }

    /// Publishes a message to the queue `jobs`.
    pub async fn publish(&self, properties: BasicProperties, body: &[u8]) {
        let options = BasicPublishOptions::default();
        self.channel
            .basic_publish("".into(), "jobs".into(), options, body, properties)
            .await
            .unwrap();
    }

    /// Receives the next message of a queue; it returns to the queue unless it is acknowledged.
    pub async fn get(&self, queue: &str) -> Option<lapin::message::Delivery> {
        let message = self
            .channel
            .basic_get(queue.into(), BasicGetOptions::default());
        message.await.unwrap().map(|message| message.delivery)
    }
}

async fn ask(api: SocketAddr, method: &str, path: &str, body: &str) -> Response {
    let request = json_bytes(method, path, servers::BROKER_AUTHORIZATION, body.as_bytes());
    exchange(api, &request).await
}

/// Repeats the query until it succeeds; panics with the last error after the time limit.
pub async fn until<T>(what: &str, ask: impl AsyncFn() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(wrong) => assert!(
                start.elapsed() < GENEROUS,
                "timed out waiting for {what}: {wrong}"
            ),
        }
        sleep(Duration::from_millis(10)).await;
    }
}
