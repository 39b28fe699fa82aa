//! The internal port of a stack's programs, for tests.

use std::{future::pending, net::SocketAddr, sync::Arc};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::transport::Transport;

/// Every pod of every stack; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct FakeApp(Arc<Mutex<AppState>>);

#[derive(Debug, Default)]
struct AppState {
    /// Body of the answer; `None` while there is none.
    answer: Option<Value>,
    asked: Vec<String>,
}

impl FakeApp {
    /// Returns a transport to all pods.
    pub fn transport(&self) -> Transport {
        let app = self.clone();
        Transport::new(service_fn(move |request: Request<Full<Bytes>>| {
            let app = app.clone();
            async move { app.answer(&request).await }
        }))
    }

    /// Answers like this from now on.
    pub fn says(&self, answer: Value) {
        self.0.lock().answer = Some(answer);
    }

    /// Says of the queue that it fails in this way, and of the database that it is up.
    pub fn says_of_queue(&self, fault: &str) {
        let queue = json!({"up": false, "fault": fault});
        self.says(json!({"database": {"up": true}, "queue": queue}));
    }

    /// Says of the database that it fails in this way.
    pub fn says_of_database(&self, fault: &str) {
        self.says(json!({"database": {"up": false, "fault": fault}}));
    }

    /// Says that both stores are up.
    pub fn says_up(&self) {
        self.says(json!({"database": {"up": true}, "queue": {"up": true}}));
    }

    /// Answers no more.
    pub fn fall_silent(&self) {
        self.0.lock().answer = None;
    }

    /// Returns the addresses of the requests since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }

    async fn answer(&self, request: &Request<Full<Bytes>>) -> Result<Response<Bytes>, BoxError> {
        let answer = {
            let mut state = self.0.lock();
            state.asked.push(request.uri().to_string());
            state.answer.clone()
        };
        let Some(answer) = answer else {
            return pending().await;
        };
        Ok(Response::new(Bytes::from(answer.to_string())))
    }
}

/// Returns the address of a pod of the app, as in requests.
pub fn address(pod: SocketAddr) -> String {
    format!("http://{pod}/backends")
}
