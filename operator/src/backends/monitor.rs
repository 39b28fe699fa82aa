//! Monitor of the external stores: asks a pod of each stack that has any, over the internal port.
//!
//! It runs in the leader only. It sends no requests to the API server, and connects to pods only: the address of a store
//! is text of a user.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::Full;
use shortener_operator_core::{
    model::{metadata::StackKey, store_state::StoreStates},
    plan::stores::external::{PATH, read},
};
use tokio::time::{Instant, sleep_until, timeout};
use tower::{BoxError, ServiceExt};

use super::Backends;
use crate::transport::Transport;

/// Mean time between two rounds. The time varies, so that operators that started together do not stay together.
const PERIOD: Duration = Duration::from_secs(30);
/// Range of the factor of that time.
const JITTER: std::ops::Range<f64> = 0.8..1.2;
/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of pods that are asked at the same time.
const CONCURRENT: usize = 16;
/// Maximum size of an answer in bytes, a multiple of what a program says.
pub const MAX_ANSWER: usize = 4096;

/// The monitor of the external stores.
pub struct Monitor {
    /// Pods to ask, and what they have said.
    pub backends: Arc<Backends>,
    /// HTTP transport to the pods, which reads at most [`MAX_ANSWER`] bytes.
    pub transport: Transport,
}

impl Monitor {
    /// Asks the pods forever.
    pub async fn run(self) {
        let mut next = Instant::now();
        loop {
            let all = tokio::select! {
                () = sleep_until(next) => true,
                () = self.backends.woken() => false,
            };
            if all {
                next = Instant::now() + PERIOD.mul_f64(rand::random_range(JITTER));
            }
            stream::iter(self.backends.pods(all))
                .for_each_concurrent(CONCURRENT, |(stack, pod)| self.ask(stack, pod))
                .await;
        }
    }

    async fn ask(&self, stack: StackKey, pod: SocketAddr) {
        let answer = timeout(LIMIT, request(self.transport.clone(), pod)).await;
        let answer = answer
            .unwrap_or_else(|_| Err(format!("no answer within {} s", LIMIT.as_secs()).into()));
        let said = match answer {
            Ok(said) => Some(said),
            Err(error) => {
                let (namespace, name) = &stack;
                tracing::debug!(stack = %name, %namespace, %pod, %error, "a pod does not tell the state of its stores");
                None
            }
        };
        self.backends.heard(&stack, pod, said);
    }
}

async fn request(transport: Transport, pod: SocketAddr) -> Result<StoreStates, BoxError> {
    let request = Request::get(format!("http://{pod}{PATH}")).body(Full::default())?;
    let answer = transport.oneshot(request).await?;
    match answer.status() {
        StatusCode::OK => read(answer.body()).ok_or_else(|| "the answer is malformed".into()),
        status => Err(format!("the answer is {status}").into()),
    }
}
