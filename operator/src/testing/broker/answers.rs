//! The answers of the in-memory management API.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, Response};
use hyper::body::Bytes;
use serde_json::{Value, json};
use shortener_operator_core::model::queue_state::Depth;
use tower::BoxError;

use super::BrokerState;

/// Status and body of an answer.
type StatusAndBody = (u16, Value);

pub(super) fn refusal(status: u16, reason: &str) -> StatusAndBody {
    (status, json!({"error": "refused", "reason": reason}))
}

impl BrokerState {
    pub(super) fn trusts(&self, authorization: &HeaderValue) -> bool {
        let pair = authorization.to_str().unwrap();
        let pair = STANDARD.decode(pair.strip_prefix("Basic ").unwrap());
        let pair = String::from_utf8(pair.unwrap()).unwrap();
        let (username, password) = pair.split_once(':').unwrap();
        let login = self.login.as_ref();
        login.is_none_or(|login| login.username == username && login.password == password)
    }

    pub(super) fn carry_out(&mut self, method: &Method, path: &str, body: &Value) -> StatusAndBody {
        let parts: Vec<&str> = path.trim_start_matches("/api/").split('/').collect();
        if *method != Method::GET {
            self.changes.push(format!("{method} {path}"));
        }
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["queues", "%2F"]) => (200, self.queues()),
            ("GET", ["feature-flags"]) => (200, self.flags.iter().cloned().collect()),
            ("GET", ["vhosts", "%2F", "channels"]) => (200, self.channels()),
            ("GET", ["vhosts", "%2F", "connections"]) => (200, self.connections()),
            ("GET", ["policies", "%2F"]) => (200, self.policies.values().cloned().collect()),
            ("PUT", ["policies", "%2F", name]) => {
                self.policies.insert((*name).to_owned(), body.clone());
                (204, Value::Null)
            }
            // Those of the member that answers.
            ("GET", ["health", "checks", "local-alarms"]) => (200, json!({"status": "ok"})),
            ("GET", ["health", "checks", "alarms"]) => match &self.alarm {
                Some(reason) => (503, json!({"status": "failed", "reason": reason})),
                None => (200, json!({"status": "ok"})),
            },
            _ => refusal(404, "Not Found"),
        }
    }

    pub(super) fn metrics(&self) -> Result<Response<Bytes>, BoxError> {
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
                "message_bytes": ready.saturating_add(*unacked).saturating_mul(100),
            }),
            None => json!({"name": name}),
        };
        self.depths.iter().map(row).collect()
    }
}
