//! A client of the management API of a stack's managed broker, through a forwarded port with the Secret's credentials.

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::{Forward, Stack};

/// Port of the management UI and its API.
pub const MANAGEMENT_PORT: u16 = 15672;

/// A client of the management API. It works as long as the pod that the port is forwarded to.
pub struct Broker {
    /// The forwarded port.
    pub forward: Forward,
    username: String,
    password: String,
    http: Client,
}

/// The message counts of a queue, as the management UI shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Messages that wait for a worker.
    pub ready: u64,
    /// Messages that are delivered to a worker and not acknowledged.
    pub unacked: u64,
    /// The sum of both.
    pub total: u64,
}

impl Broker {
    /// Forwards a port to the broker of a stack and reads its credentials.
    pub async fn open(stack: &Stack) -> Result<Self> {
        let name = format!("{}-rabbitmq", stack.name);
        Ok(Self {
            forward: Forward::to(stack, &name, MANAGEMENT_PORT).await?,
            username: stack.credential(&name, "username").await?,
            password: stack.credential(&name, "password").await?,
            http: Client::new(),
        })
    }

    /// Returns the message counts of queue `name`. The broker updates them only every few seconds.
    pub async fn depth(&self, name: &str) -> Result<Depth> {
        let queue = self
            .ask(Method::GET, &format!("queues/%2f/{name}"), None)
            .await?;
        let count = |field: &str| {
            let value = queue[field].as_u64();
            value.with_context(|| format!("the queue has no {field} yet: {queue}"))
        };
        Ok(Depth {
            ready: count("messages_ready")?,
            unacked: count("messages_unacknowledged")?,
            total: count("messages")?,
        })
    }

    /// Returns the first waiting message of queue `name`, which is current, unlike the counts. The message is requeued.
    pub async fn first(&self, name: &str) -> Result<Option<Value>> {
        let look = json!({"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"});
        let path = format!("queues/%2f/{name}/get");
        let messages = self.ask(Method::POST, &path, Some(&look)).await?;
        let list = messages.as_array();
        let list = list.with_context(|| format!("expected a list of messages, got {messages}"))?;
        Ok(list.first().cloned())
    }

    /// Publishes a message with any body to a queue, without the app.
    pub async fn publish(&self, queue: &str, id: &str, body: &str) -> Result<()> {
        let message = json!({
            "properties": {"delivery_mode": 2, "message_id": id, "content_type": "application/json"},
            "routing_key": queue, "payload": body, "payload_encoding": "string",
        });
        let path = "exchanges/%2f/amq.default/publish";
        let answer = self.ask(Method::POST, path, Some(&message)).await?;
        ensure!(
            answer["routed"] == true,
            "the broker routed the message to no queue: {answer}"
        );
        Ok(())
    }

    /// Sends a request to the API; `path` is the part after `/api/`.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let url = format!("http://{}/api/{path}", self.forward.address);
        let mut request = self.http.request(method, url);
        request = request.basic_auth(&self.username, Some(&self.password));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.is_success(), "{path}: {status}: {text}");
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).with_context(|| format!("{path}: expected JSON, got {text}"))
    }
}
