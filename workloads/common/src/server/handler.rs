//! Who answers the requests of a connection: a router, or something that answers some of them before it.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
};

use axum::{Router, response::Response};
use hyper::body::Incoming;
use tower::Service;

use super::{body::RequestBody, phase::Phase};

/// A request as it arrives.
pub type Request = http::Request<Incoming>;

/// The remote address of the connection, as a request extension. An IPv4 address is never mapped to IPv6.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The client at the other end of a connection.
pub struct Client {
    peer: Peer,
    pub(super) phase: Phase,
}

impl Client {
    pub(super) fn new(peer: SocketAddr, phase: Phase) -> Self {
        let peer = Peer(peer);
        Self { peer, phase }
    }

    /// Returns its address. An IPv4 address is never mapped to IPv6.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.peer.0.ip()
    }
}

/// Answers the requests of a server. Each connection has a copy.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Answers a request of this client.
    fn answer(&self, request: Request, client: &Client) -> impl Future<Output = Response> + Send;
}

/// Adds the extension [`Peer`] to each request.
impl Handler for Router {
    async fn answer(&self, request: Request, client: &Client) -> Response {
        let mut request = request.map(|body| RequestBody::new(body, client.phase.clone()));
        request.extensions_mut().insert(client.peer);
        let answered = self.clone().call(request);
        let Ok(response) = answered.await;
        response
    }
}
