//! Clients for the API server: a fenced one for everything but the lease, and one for the lease alone.
//!
//! Neither retries a request by itself, as kube would by default: a retry would bypass the fence and could arrive
//! after the write deadline. Reconciles and watches have their own backoff.

use std::time::Duration;

use kube::{Client, Config, client::ClientBuilder};
use tower::util::MapResponseLayer;

use crate::{
    kubernetes::{deadline::DeadlineLayer, nesting, request_spans::RequestSpans},
    leadership::fence::FenceLayer,
};

/// Time limit of a request, including a large list.
const REQUEST_LIMIT: Duration = Duration::from_secs(25);
/// Time limit of a request for the lease.
const LEASE_LIMIT: Duration = Duration::from_secs(5);
/// Time limit of a connection attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The operator's clients for the API server.
#[derive(Clone)]
pub struct Clients {
    /// Client for everything but the lease; its writes pass the fence.
    pub main: Client,
    /// Client for the lease alone, so that a renewal never queues behind other requests.
    pub lease: Client,
}

/// Builds both clients from the kubeconfig or the pod's service account. Sends no request.
///
/// # Errors
/// The configuration is missing or cannot be used.
pub async fn connect(fence: &FenceLayer) -> Result<Clients, kube::Error> {
    let mut config = Config::infer().await.map_err(kube::Error::InferConfig)?;
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_LIMIT);
    let lease = ClientBuilder::try_from(config.clone())?
        .with_layer(&DeadlineLayer(LEASE_LIMIT))
        .build();
    let main = ClientBuilder::try_from(config)?
        .with_layer(&DeadlineLayer(REQUEST_LIMIT))
        .with_layer(fence)
        .with_layer(&RequestSpans)
        .with_layer(&MapResponseLayer::new(nesting::limited))
        .build();
    Ok(Clients { main, lease })
}
