//! An in-memory management API of a broker, for tests.
//!
//! It answers like RabbitMQ 3.10: queues with ready and unacknowledged messages, policies and alarms. Every change is
//! recorded.

mod answers;
mod clients;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use shortener_operator_core::model::queue_state::Depth;
use tower::{BoxError, service_fn};

use crate::{
    rabbitmq::broker::{Broker, Login},
    transport::Transport,
};
use answers::refusal;

/// An in-memory broker; clones share its state.
#[derive(Clone, Debug, Default)]
pub struct FakeBroker(Arc<Mutex<BrokerState>>);

#[derive(Debug)]
struct BrokerState {
    /// Accepted credentials; `None` accepts all.
    login: Option<Login>,
    depths: BTreeMap<String, Option<Depth>>,
    policies: BTreeMap<String, Value>,
    dropped: Option<u64>,
    alarm: Option<String>,
    away: bool,
    /// Unacknowledged messages of each client, if the broker has statistics of it.
    clients: BTreeMap<String, Option<i64>>,
    /// Feature flags.
    flags: Vec<Value>,
    changes: Vec<String>,
}

impl Default for BrokerState {
    fn default() -> Self {
        let queues = ["jobs", "jobs.dlq"];
        Self {
            login: Some(login()),
            depths: queues
                .map(|name| (name.to_owned(), Some(Depth::default())))
                .into(),
            policies: BTreeMap::new(),
            dropped: Some(0),
            alarm: None,
            away: false,
            clients: BTreeMap::new(),
            flags: Vec::new(),
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
    fn state(&self) -> MutexGuard<'_, BrokerState> {
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

    /// Counts messages as dropped by full queues.
    pub fn drops(&self, messages: u64) {
        *self.state().dropped.get_or_insert(0) += messages;
    }

    /// Closes the port of the metrics.
    pub fn without_metrics(&self) {
        self.state().dropped = None;
    }

    /// Adds a feature flag.
    pub fn has_flag(&self, name: &str, state: &str, stability: &str) {
        let flag = json!({"name": name, "state": state, "stability": stability});
        self.state().flags.push(flag);
    }

    /// Raises an alarm at another member, as for a shortage of memory or disk space.
    pub fn raise_alarm(&self, reason: &str) {
        self.state().alarm = Some(reason.to_owned());
    }

    /// Refuses all connections from now on.
    pub fn go_away(&self) {
        self.state().away = true;
    }

    /// Edits a policy as a user would by hand.
    pub fn edit_policy(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        edit(self.state().policies.get_mut(name).unwrap());
    }

    /// Returns a setting of a policy.
    pub fn policy(&self, name: &str, setting: &str) -> Value {
        self.state().policies[name]["definition"][setting].clone()
    }

    /// Returns methods and paths of the requests that changed something.
    pub fn changes(&self) -> Vec<String> {
        self.state().changes.clone()
    }

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
        let trusted = state.trusts(&head.headers[header::AUTHORIZATION]);
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
