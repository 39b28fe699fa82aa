//! The app of one stack, as a worker reaches it: over the management port of one of its pods.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde::{Serialize, de::DeserializeOwned};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        credentials::{MANAGEMENT_KEY, management_name},
        metadata::StackKey,
    },
    plan::short_links::{batch, read},
};
use tokio::time::{Instant, timeout};
use tower::{BoxError, ServiceExt};

use super::Shared;
use crate::{kubernetes::refusal, reconcile::context::backoff};

/// Time limit of one request, which may write a hundred links.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest time until a request that has failed is repeated.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Maximum size of an answer in bytes: a hundred results with a URL and a message.
pub const MAX_ANSWER: usize = 256 * 1024;

/// The app of a stack, and what is known of it.
pub(super) struct App {
    shared: Arc<Shared>,
    stack: StackKey,
    /// Value of the header that opens the port.
    key: Option<HeaderValue>,
    failure: Option<Failure>,
    /// Time since which the app cannot be reached.
    silent_since: Option<Instant>,
}

/// The failures since the last answer.
struct Failure {
    pod: SocketAddr,
    count: u32,
    /// Time of the next attempt.
    until: Instant,
    why: String,
}

/// Why a request has failed: as part of a sentence for statuses, which names nothing that differs from one attempt to the next,
/// and in detail.
type Cause = (String, Option<BoxError>);

impl App {
    pub(super) fn new(shared: Arc<Shared>, stack: StackKey) -> Self {
        Self {
            shared,
            stack,
            key: None,
            failure: None,
            silent_since: None,
        }
    }

    /// Returns the pod to ask, or why there is none, as part of a sentence. After a failure only another pod is asked before
    /// the time of the next attempt.
    pub(super) fn reach(
        &mut self,
        stack: Option<&ShortenerStack>,
        pod: Option<SocketAddr>,
    ) -> Result<SocketAddr, String> {
        let now = Instant::now();
        let reached = match (stack, pod, &self.failure) {
            (None, ..) => Err("its resource cannot be parsed".to_owned()),
            (Some(stack), ..) if stack.spec.stopped => Err("it is stopped".to_owned()),
            (_, None, _) => Err("no pod of its app is ready".to_owned()),
            (_, Some(pod), Some(failure)) if failure.pod == pod && now < failure.until => {
                Err(failure.why.clone())
            }
            (_, Some(pod), _) => Ok(pod),
        };
        if reached.is_err() {
            self.silent_since.get_or_insert(now);
        } else if self.failure.is_none() {
            self.silent_since = None;
        }
        reached
    }

    /// Returns the time for which the app could not be reached.
    pub(super) fn silent_for(&self) -> Duration {
        let since = self.silent_since;
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the time of the next attempt after a failure.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.until)
    }

    /// Sends as many of these items as fit into one request; `codes` are those of their links. Returns the answers about them,
    /// or `None` after a failure.
    pub(super) async fn send<T: Serialize, A: DeserializeOwned>(
        &mut self,
        pod: SocketAddr,
        path: &str,
        items: &[T],
        codes: &[&str],
    ) -> Option<Vec<A>> {
        match self.try_send(pod, path, items, codes).await {
            Ok(answers) => {
                self.failure = None;
                self.silent_since = None;
                Some(answers)
            }
            Err(cause) => {
                self.fail(pod, cause);
                None
            }
        }
    }

    fn fail(&mut self, pod: SocketAddr, (why, error): Cause) {
        let (now, (namespace, name)) = (Instant::now(), &self.stack);
        let count = self.failure.take().map_or(0, |failure| failure.count) + 1;
        if count == 1 {
            tracing::warn!(stack = %name, %namespace, %pod, error, "the links of ShortLinks cannot be changed: {why}; retrying");
        }
        // It may have changed.
        self.key = None;
        self.silent_since.get_or_insert(now);
        self.failure = Some(Failure {
            pod,
            count,
            until: now + backoff(count, LONGEST_BACKOFF),
            why,
        });
    }

    async fn try_send<T: Serialize, A: DeserializeOwned>(
        &mut self,
        pod: SocketAddr,
        path: &str,
        items: &[T],
        codes: &[&str],
    ) -> Result<Vec<A>, Cause> {
        let silent = |error: BoxError| ("its app does not answer".to_owned(), Some(error));
        let (body, count) = batch(items).map_err(|error| silent(error.into()))?;
        let key = match &self.key {
            Some(key) => key.clone(),
            None => self.key.insert(self.read_key().await?).clone(),
        };
        let request = Request::post(format!("http://{pod}{path}"))
            .header(AUTHORIZATION, key)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| silent(error.into()))?;
        let answer = timeout(LIMIT, self.shared.apps.transport.clone().oneshot(request));
        let answer = self.shared.apps.write_deadline.guard(answer).await;
        let answer = answer
            .map_err(|error| silent(error.into()))?
            .map_err(|error| silent(error.into()))?
            .map_err(silent)?;
        match answer.status() {
            StatusCode::OK => read(answer.body(), &codes[..count])
                .ok_or_else(|| ("its app gives a malformed answer".to_owned(), None)),
            StatusCode::UNAUTHORIZED => {
                Err(("its app refuses the operator's key".to_owned(), None))
            }
            status => Err((format!("its app answers {}", status.as_u16()), None)),
        }
    }

    /// Reads the key of the management port from the Secret of the stack.
    async fn read_key(&self) -> Result<HeaderValue, Cause> {
        let (namespace, stack) = &self.stack;
        let name = management_name(stack);
        let client = self.shared.context.client.clone();
        let secrets: Api<Secret> = Api::namespaced(client, namespace);
        let secret = secrets.get(&name).await.map_err(|error| {
            let lacks_it = matches!(&error, kube::Error::Api(status) if refusal::is_absent(status));
            let what = if lacks_it {
                "does not exist"
            } else {
                "cannot be read"
            };
            (format!("its Secret {name} {what}"), Some(error.into()))
        })?;
        let data = secret.data.unwrap_or_default();
        let key = data.get(MANAGEMENT_KEY);
        let key = key.and_then(|key| std::str::from_utf8(&key.0).ok());
        let value = key.and_then(|key| HeaderValue::try_from(format!("Bearer {key}")).ok());
        value.ok_or_else(|| (format!("its Secret {name} has no usable key"), None))
    }
}
