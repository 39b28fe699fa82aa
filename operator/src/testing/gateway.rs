//! The gateways of all stacks, for tests of end-to-end probes through them.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use futures::FutureExt;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header::LOCATION};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::{probes::end_to_end::Connect, transport::Transport};

/// Path of the job that the gateway accepts.
const JOB: &str = "GET /jobs/0197f2a4-0000-7000-8000-000000000001";

/// A gateway in front of an app that works, unless a test says something else; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct FakeGateway(Arc<Mutex<GatewayState>>);

#[derive(Debug, Default)]
struct GatewayState {
    silent: bool,
    /// Answers that replace the usual ones, by method and path.
    answers: BTreeMap<String, (StatusCode, Value)>,
    /// Destination of the link that replaces the given one.
    destination: Option<String>,
    seen: Vec<Seen>,
}

/// A request that the gateway has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method and path.
    pub line: String,
    /// Header `Host`.
    pub host: String,
    /// Header `X-Api-Key`.
    pub key: Option<String>,
    /// Header `traceparent`.
    pub traceparent: String,
    /// Body, `Null` without one.
    pub body: Value,
}

impl FakeGateway {
    /// Returns the way to send requests to it, whatever the address.
    pub fn connect(&self) -> Connect {
        let gateway = self.clone();
        Arc::new(move |_: Uri| {
            let transport = gateway.transport();
            async move { Ok(transport) }.boxed()
        })
    }

    fn transport(&self) -> Transport {
        let gateway = self.clone();
        Transport::new(service_fn(move |request: Request<Full<Bytes>>| {
            let gateway = gateway.clone();
            async move { gateway.answer(request).await }
        }))
    }

    /// Answers requests of this method and path like this from now on.
    pub fn answers(&self, line: &str, status: StatusCode, body: Value) {
        let mut state = self.0.lock();
        state.answers.insert(line.to_owned(), (status, body));
    }

    /// Answers as a stack that works from now on.
    pub fn recovers(&self) {
        self.0.lock().answers.clear();
    }

    /// Leads its links to this address from now on.
    pub fn leads_to(&self, destination: &str) {
        self.0.lock().destination = Some(destination.to_owned());
    }

    /// Answers no more.
    pub fn fall_silent(&self) {
        self.0.lock().silent = true;
    }

    /// Returns the requests since the last call.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().seen)
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let line = format!("{} {}", head.method, head.uri.path());
        let answer = {
            let mut state = self.0.lock();
            state.seen.push(Seen {
                host: text(&head.headers, "host").unwrap_or_default(),
                key: text(&head.headers, "x-api-key"),
                traceparent: text(&head.headers, "traceparent").unwrap_or_default(),
                line: line.clone(),
                body: body.clone(),
            });
            (!state.silent).then(|| state.respond(&line, &body))
        };
        match answer {
            Some(answer) => Ok(answer?),
            None => pending().await,
        }
    }
}

impl GatewayState {
    fn respond(&mut self, line: &str, body: &Value) -> Result<Response<Bytes>, http::Error> {
        if let Some(url) = body["url"].as_str() {
            self.destination.get_or_insert(url.to_owned());
        }
        let answer = Response::builder();
        if let Some((status, body)) = self.answers.get(line) {
            return answer.status(*status).body(Bytes::from(body.to_string()));
        }
        let asked = self.seen.iter().filter(|seen| seen.line == JOB).count();
        let (status, body) = match line {
            "POST /api/shorten" => (StatusCode::CREATED, json!({"code": "k7Qm2xB"})),
            "GET /k7Qm2xB" => {
                let destination = self.destination.clone().unwrap_or_default();
                let answer = answer.header(LOCATION, destination);
                return answer.status(StatusCode::FOUND).body(Bytes::new());
            }
            "POST /api/jobs" => {
                let id = json!({"id": "0197f2a4-0000-7000-8000-000000000001"});
                (StatusCode::ACCEPTED, id)
            }
            JOB => {
                let status = if asked > 1 { "done" } else { "enqueued" };
                (StatusCode::OK, json!({"status": status}))
            }
            _ => (StatusCode::NOT_FOUND, json!({})),
        };
        answer.status(status).body(Bytes::from(body.to_string()))
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(value.to_str().unwrap().to_owned())
}
