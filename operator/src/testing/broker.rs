//! An in-memory management API of a broker, for tests.
//!
//! It answers like RabbitMQ 3.10: queues with ready and unacknowledged messages, policies, alarms, and get and
//! publish over the default exchange. Every change is recorded.

mod clients;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use shortener_operator_core::model::queue_state::Depth;
use tower::{BoxError, service_fn};

use crate::rabbitmq::broker::{Broker, Login, message::Message, transport::Transport};

/// An in-memory broker; clones share its state.
#[derive(Clone, Debug, Default)]
pub struct FakeBroker(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Accepted credentials; `None` accepts all.
    login: Option<Login>,
    depths: BTreeMap<String, Option<Depth>>,
    messages: BTreeMap<String, Vec<Message>>,
    policies: BTreeMap<String, Value>,
    bounds: BTreeMap<String, usize>,
    dropped: Option<u64>,
    alarm: Option<String>,
    away: bool,
    full: bool,
    /// Unacknowledged messages of each client, if the broker has statistics of it.
    clients: BTreeMap<String, Option<i64>>,
    changes: Vec<String>,
}

impl Default for State {
    fn default() -> Self {
        let queues = ["jobs", "jobs.dlq"];
        Self {
            login: Some(login()),
            depths: queues
                .map(|name| (name.to_owned(), Some(Depth::default())))
                .into(),
            messages: queues.map(|name| (name.to_owned(), Vec::new())).into(),
            policies: BTreeMap::new(),
            bounds: BTreeMap::new(),
            dropped: Some(0),
            alarm: None,
            away: false,
            full: false,
            clients: BTreeMap::new(),
            changes: Vec::new(),
        }
    }
}

fn login() -> Login {
    Login {
        username: "shortener".to_owned(),
        password: "s3cret".to_owned(),
    }
}

impl FakeBroker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Returns a client with the right credentials.
    pub fn broker(&self) -> Broker {
        self.broker_for(login())
    }

    /// Returns a client with these credentials.
    pub fn broker_for(&self, login: Login) -> Broker {
        let limit = Duration::from_secs(5);
        Broker::new(self.transport(), "http://broker.test:15672/", login, limit)
    }

    /// Returns a transport to this broker that ignores the address.
    pub fn transport(&self) -> Transport {
        let broker = self.clone();
        Transport::new(service_fn(move |request| {
            let broker = broker.clone();
            async move { broker.answer(request).await }
        }))
    }

    /// Accepts any credentials, like a broker that has just imported the current ones.
    pub fn trust_everybody(&self) {
        self.state().login = None;
    }

    /// Sets the depth of a queue.
    pub fn holds(&self, queue: &str, depth: Depth) {
        self.state().depths.insert(queue.to_owned(), Some(depth));
    }

    /// Removes the statistics of the queues, which still exist.
    pub fn without_statistics(&self) {
        for depth in self.state().depths.values_mut() {
            *depth = None;
        }
    }

    /// Bounds a queue, which then drops its oldest messages.
    pub fn bound(&self, queue: &str, length: usize) {
        self.state().bounds.insert(queue.to_owned(), length);
    }

    /// Counts messages as dropped by full queues.
    pub fn drops(&self, messages: u64) {
        *self.state().dropped.get_or_insert(0) += messages;
    }

    /// Closes the port of the metrics.
    pub fn without_metrics(&self) {
        self.state().dropped = None;
    }

    /// Raises an alarm, as for a shortage of memory or disk space.
    pub fn raise_alarm(&self, reason: &str) {
        self.state().alarm = Some(reason.to_owned());
    }

    /// Refuses all connections from now on.
    pub fn go_away(&self) {
        self.state().away = true;
    }

    /// Rejects all messages from now on.
    pub fn refuse_messages(&self) {
        self.state().full = true;
    }

    /// Edits a policy as a user would by hand.
    pub fn edit_policy(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        edit(self.state().policies.get_mut(name).unwrap());
    }

    /// Returns a setting of a policy.
    pub fn policy(&self, name: &str, setting: &str) -> Value {
        self.state().policies[name]["definition"][setting].clone()
    }

    /// Puts messages into a queue.
    pub fn fill(&self, queue: &str, messages: impl IntoIterator<Item = Message>) {
        let mut state = self.state();
        state
            .messages
            .entry(queue.to_owned())
            .or_default()
            .extend(messages);
    }

    /// Returns the ids of the messages in a queue.
    pub fn ids(&self, queue: &str) -> Vec<String> {
        let state = self.state();
        let messages = state.messages[queue].iter();
        messages
            .map(|message| message.id().unwrap_or_default().to_owned())
            .collect()
    }

    /// Returns the messages in a queue.
    pub fn messages(&self, queue: &str) -> Vec<Message> {
        self.state().messages[queue].clone()
    }

    /// Returns methods and paths of the requests that changed something.
    pub fn changes(&self) -> Vec<String> {
        self.state().changes.clone()
    }

    /// Clears the recorded changes.
    pub fn forget_changes(&self) {
        self.state().changes.clear();
    }

    async fn answer(self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, BoxError> {
        let (head, body) = request.into_parts();
        let body: Value =
            serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
        let mut state = self.state();
        if state.away {
            return Err("connection refused".into());
        }
        if head.uri.path() == "/metrics" {
            return state.metrics();
        }
        let trusted = state.login.as_ref().is_none_or(|login| {
            let pair = format!("{}:{}", login.username, login.password);
            head.headers[header::AUTHORIZATION]
                == format!("Basic {}", STANDARD.encode(pair)).as_str()
        });
        let (status, answer) = if trusted {
            state.carry_out(&head.method, head.uri.path(), &body)
        } else {
            refusal(401, "Not_Authorized")
        };
        let mut response = Response::new(Bytes::from(answer.to_string()));
        *response.status_mut() = StatusCode::from_u16(status)?;
        Ok(response)
    }
}

type Answer = (u16, Value);

fn refusal(status: u16, reason: &str) -> Answer {
    (status, json!({"error": "refused", "reason": reason}))
}

impl State {
    fn carry_out(&mut self, method: &Method, path: &str, body: &Value) -> Answer {
        let parts: Vec<&str> = path.trim_start_matches("/api/").split('/').collect();
        if *method != Method::GET {
            self.changes.push(format!("{method} {path}"));
        }
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["queues", "%2F"]) => (200, self.queues()),
            ("GET", ["vhosts", "%2F", "channels"]) => (200, self.channels()),
            ("GET", ["vhosts", "%2F", "connections"]) => (200, self.connections()),
            ("GET", ["policies", "%2F"]) => (200, self.policies.values().cloned().collect()),
            ("PUT", ["policies", "%2F", name]) => {
                self.policies.insert((*name).to_owned(), body.clone());
                (204, Value::Null)
            }
            ("GET", ["health", "checks", "local-alarms"]) => match &self.alarm {
                Some(reason) => (503, json!({"status": "failed", "reason": reason})),
                None => (200, json!({"status": "ok"})),
            },
            ("POST", ["queues", "%2F", queue, "get"]) => self.get(queue, body),
            ("DELETE", ["queues", "%2F", queue, "contents"]) => {
                self.messages.insert((*queue).to_owned(), Vec::new());
                (204, Value::Null)
            }
            ("POST", ["exchanges", "%2F", "amq.default", "publish"]) => self.publish(body),
            _ => refusal(404, "Not Found"),
        }
    }

    fn metrics(&self) -> Result<Response<Bytes>, BoxError> {
        let dropped = self.dropped.ok_or("connection refused")?;
        let labels = r#"queue_type="rabbit_quorum_queue",dead_letter_strategy="disabled""#;
        let name = "rabbitmq_global_messages_dead_lettered_maxlen_total";
        Ok(Response::new(
            format!("{name}{{{labels}}} {dropped}.0\n").into(),
        ))
    }

    fn queues(&self) -> Value {
        let row = |(name, depth): (&String, &Option<Depth>)| match depth {
            Some(Depth { ready, unacked }) => json!({
                "name": name, "messages_ready": ready, "messages_unacknowledged": unacked,
                "message_bytes": (ready + unacked) * 100,
            }),
            None => json!({"name": name}),
        };
        self.depths.iter().map(row).collect()
    }

    fn get(&mut self, queue: &str, body: &Value) -> Answer {
        let Some(messages) = self.messages.get_mut(queue) else {
            return refusal(404, "NOT_FOUND - no queue");
        };
        let count = usize::try_from(body["count"].as_u64().unwrap()).unwrap();
        let (total, count) = (messages.len(), count.min(messages.len()));
        let taken: Vec<Message> = if body["ackmode"] == "ack_requeue_false" {
            messages.drain(..count).collect()
        } else {
            self.changes.pop();
            messages[..count].to_vec()
        };
        let answer = taken.into_iter().enumerate().map(|(index, message)| {
            let mut answer = serde_json::to_value(message).unwrap();
            answer["message_count"] = (total - 1 - index).into();
            answer
        });
        (200, answer.collect())
    }

    fn publish(&mut self, body: &Value) -> Answer {
        if self.full {
            return refusal(
                400,
                "rejected Unable to publish message. Check queue limits.",
            );
        }
        let queue = body["routing_key"].as_str().unwrap();
        let bound = self.bounds.get(queue).copied().unwrap_or(usize::MAX);
        let routed = match self.messages.get_mut(queue) {
            Some(messages) => {
                messages.push(serde_json::from_value(body.clone()).unwrap());
                messages.drain(..messages.len().saturating_sub(bound));
                true
            }
            None => false,
        };
        (200, json!({"routed": routed}))
    }
}
