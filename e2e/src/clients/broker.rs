//! A client of the management API of a stack's managed broker, through a forwarded port with the Secret's credentials.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    clients::{Answer, GatewayClient},
    harness::{Forward, Stack},
};

/// Port of the management UI and its API.
const MANAGEMENT_PORT: u16 = 15672;

/// A client of the management API. It works as long as the pod that the port is forwarded to.
pub struct Broker {
    /// A client of the same address without the credentials.
    pub http: GatewayClient,
    username: String,
    password: String,
    _forward: Forward,
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
    /// Forwards a port to the broker of a stack and reads the credentials of the app and the workers.
    pub async fn open(stack: &Stack) -> Result<Self> {
        Self::open_as(stack, ["username", "password"]).await
    }

    /// Does the same with the credentials of the operator, which sees every figure and keeps the policies.
    pub async fn open_as_operator(stack: &Stack) -> Result<Self> {
        Self::open_as(stack, ["operator-username", "operator-password"]).await
    }

    async fn open_as(stack: &Stack, [username, password]: [&str; 2]) -> Result<Self> {
        let name = format!("{}-rabbitmq", stack.name);
        let forward = Forward::to(stack, &name, MANAGEMENT_PORT).await?;
        Ok(Self {
            http: GatewayClient::through(&forward)?,
            username: stack.credential(&name, username).await?,
            password: stack.credential(&name, password).await?,
            _forward: forward,
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
        let message = publication(queue, id, body);
        let path = "exchanges/%2f/amq.default/publish";
        let answer = self.ask(Method::POST, path, Some(&message)).await?;
        ensure!(
            answer["routed"] == true,
            "the broker routed the message to no queue: {answer}"
        );
        Ok(())
    }

    /// Sends a request with the credentials and returns any answer.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let request = self.http.request(method, path);
        let request = request.basic_auth(&self.username, Some(&self.password));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.http.send(request).await
    }

    /// Sends a request to the API that must succeed; `path` is the part after `/api/`.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.send(method, &format!("/api/{path}"), body).await?;
        let success = (200..300).contains(&answer.status);
        ensure!(success, "{path}: expected success, got {answer:?}");
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        answer.json()
    }
}

/// Returns the body of a request that publishes a message with any body to a queue.
pub fn publication(queue: &str, id: &str, body: &str) -> Value {
    json!({
        "properties": {"delivery_mode": 2, "message_id": id, "content_type": "application/json"},
        "routing_key": queue, "payload": body, "payload_encoding": "string",
    })
}
