//! The answers to the requests of a connection: by a router, or by something that answers some of them before it.

use std::{
    future::{Future, poll_fn},
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use axum::{Router, body::Body, response::Response};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::Service;

use super::{alarm::Alarm, body::RequestBody, phase::Phase};

/// A request as it arrives.
pub type Request = http::Request<Incoming>;

/// The client at the other end of a connection; cheap to clone. A request that a router gets has it as an extension.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    peer: SocketAddr,
    phase: Phase,
    /// One request of a connection is handled at a time, so that all can share it.
    alarm: Mutex<Alarm>,
}

impl Client {
    pub(super) fn new(peer: SocketAddr, phase: Phase) -> Self {
        Self(Arc::new(Shared {
            peer,
            phase,
            alarm: Mutex::default(),
        }))
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.0.phase
    }

    /// Returns a request of this client for a handler that may read its body. The connection is told when the handler
    /// waits for it.
    #[must_use]
    pub fn with_body(&self, request: Request) -> http::Request<Body> {
        request.map(|body| Body::new(RequestBody::new(body, self.phase().clone())))
    }

    /// Returns its address. An IPv4 address is never mapped to IPv6.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.0.peer.ip()
    }

    /// Returns the result of work for a request of this client; `None` if the work is not done by the deadline. Work that
    /// is done at once costs no timer, and other work shares the one of the connection.
    pub async fn in_time<T>(&self, deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            let over = self.0.alarm.lock().poll(deadline, context);
            over.map(|()| None)
        })
        .await
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

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        net::Ipv4Addr,
        time::Duration,
    };

    use tokio::time::sleep;

    use super::{super::phase::Vacancy, *};
    use crate::budget::Budget;

    const SECOND: Duration = Duration::from_secs(1);

    fn client() -> Client {
        let phase = Phase::new(Budget::new(0), Arc::new(Vacancy::new()));
        Client::new((Ipv4Addr::LOCALHOST, 1).into(), phase)
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_has_a_time_of_its_own() {
        let client = client();
        let begin = Instant::now();
        let done = client.in_time(begin + SECOND, sleep(SECOND / 2));
        assert!(done.await.is_some());
        // The timer is set to the end of the first request, which is earlier.
        let done = client.in_time(begin + 3 * SECOND, sleep(2 * SECOND));
        assert!(done.await.is_some());
        let late = client.in_time(begin + 4 * SECOND, pending::<()>());
        assert_eq!(late.await, None);
        assert_eq!(begin.elapsed(), 4 * SECOND);
        let earlier = client.in_time(begin + 5 * SECOND, sleep(SECOND / 2));
        assert!(earlier.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_done_at_once_is_in_time_and_needs_no_timer() {
        let client = client();
        let begin = Instant::now();
        assert_eq!(client.in_time(begin - SECOND, ready(7)).await, Some(7));
        assert!(client.0.alarm.lock().is_unset());
    }
}
