//! Asks a pod of each stack for the state of its stores, over the internal port.
//!
//! It connects to pods only: the address of a store is text of a user. A store that stays as it is causes no write.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, StatusCode};
use http_body_util::Full;
use shortener_operator_core::{
    model::{
        metadata::StackKey,
        store_state::{StoreFaults, StoreStates, faults},
    },
    plan::stores::external::{Informant, PATH, read},
};
use tokio::time::timeout;
use tower::{BoxError, ServiceExt};

use super::{Probes, Subject};
use crate::transport::Transport;

/// Mean time between two questions.
const PERIOD: Duration = Duration::from_secs(30);
/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(2);
/// Requests in a row that have to fail before the state of the stores counts as unknown.
const ATTEMPTS: usize = 3;
/// Maximum size of an answer in bytes, a multiple of what a program says.
pub const MAX_ANSWER: usize = 4096;

/// The known faults of the stacks' stores. What is tried with a stack is to ask the pod that tells them.
pub type Backends = Probes<Informant>;

impl Subject for Informant {
    type Answer = StoreFaults;

    fn interval(&self) -> Duration {
        PERIOD
    }
}

/// Asks the pods forever. The transport reads at most [`MAX_ANSWER`] bytes.
pub async fn run(backends: Arc<Backends>, transport: Transport) {
    let attempt = |stack: StackKey, informant: Informant| {
        let pod = informant.address;
        let (backends, transport) = (backends.clone(), transport.clone());
        async move {
            let known = backends.known(&stack).unwrap_or_default();
            for _ in 0..ATTEMPTS {
                match ask(&transport, pod).await {
                    Ok(states) => return Some(faults(&states, &known)),
                    Err(error) => {
                        let (namespace, name) = &stack;
                        tracing::debug!(stack = %name, %namespace, %pod, %error, "a pod does not report the state of its stores");
                    }
                }
            }
            Some(StoreFaults::new())
        }
    };
    backends.run(attempt).await;
}

async fn ask(transport: &Transport, pod: SocketAddr) -> Result<StoreStates, BoxError> {
    let request = Request::get(format!("http://{pod}{PATH}")).body(Full::default())?;
    let answer = timeout(LIMIT, transport.clone().oneshot(request)).await??;
    match answer.status() {
        StatusCode::OK => read(answer.body()).ok_or_else(|| "the answer is malformed".into()),
        status => Err(format!("the answer is {status}").into()),
    }
}
