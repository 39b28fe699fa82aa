//! The answers to the requests of a connection: by a router, or by something that answers some of them before it.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
};

use axum::{Router, body::Body, response::Response};
use hyper::body::Incoming;
use tower::Service;

use super::{body::RequestBody, phase::SharedPhase};

/// A request as it arrives.
pub type Request = http::Request<Incoming>;

/// The client at the other end of a connection; cheap to clone. A request that a router gets has it as an extension.
#[derive(Clone)]
pub struct Client {
    peer: SocketAddr,
    phase: SharedPhase,
}

impl Client {
    pub(super) fn new(peer: SocketAddr, phase: SharedPhase) -> Self {
        Self { peer, phase }
    }

    pub(super) fn phase(&self) -> &SharedPhase {
        &self.phase
    }

    /// Returns a request of this client for a handler that may read its body.
    pub fn with_body(&self, request: Request) -> http::Request<Body> {
        request.map(|inner| {
            let phase = self.phase.clone();
            Body::new(RequestBody { inner, phase })
        })
    }

    /// Returns its address. An IPv4 address is never mapped to IPv6.
    pub fn address(&self) -> IpAddr {
        self.peer.ip()
    }
}

/// Answers the requests of a server. Each connection has a copy.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Answers a request of this client.
    fn answer(&self, request: Request, client: &Client) -> impl Future<Output = Response> + Send;
}

impl Handler for Router {
    async fn answer(&self, request: Request, client: &Client) -> Response {
        let mut request = client.with_body(request);
        request.extensions_mut().insert(client.clone());
        let answered = self.clone().call(request);
        let Ok(response) = answered.await;
        response
    }
}
