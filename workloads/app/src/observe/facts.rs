//! The facts about a request that are known before it is handled.

use std::{net::IpAddr, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{ACCEPT, ORIGIN},
};
use shortener_common::{
    server::Client as Connected,
    trace::{Caller, TraceContext},
};

use crate::{
    auth::{self, Guard},
    client,
    config::ServeArgs,
    error::Error,
    limits::LimitedClient,
    route::Route,
};

/// The maximum length of a path in the log line and the span, in bytes.
const MAX_PATH: usize = 256;

/// The head of a request, besides its header fields: a handler takes these.
pub(crate) struct Head<'a> {
    pub(crate) route: Route,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    /// The client at the other end of the connection.
    pub(crate) client: &'a Connected,
}

/// The facts about a request.
pub(super) struct RequestFacts<'a> {
    pub(super) trace: TraceContext,
    /// The caller, if its trace is not continued.
    pub(super) caller: Option<Caller>,
    pub(super) route: Route,
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) client: IpAddr,
    /// What the log line and the span show of that address.
    pub(super) shown_client: Option<IpAddr>,
    /// The client whose key the request has.
    pub(super) identity: Option<auth::Client>,
    /// What the client accepts, if errors can be pages; of several header lines, the first one.
    pub(super) accept: Option<HeaderValue>,
    /// The origin of the script that sends the request, if the route is for scripts.
    pub(super) origin: Option<HeaderValue>,
}

impl<'a> RequestFacts<'a> {
    pub(super) fn of(head: &Head<'a>, headers: &HeaderMap, config: &ServeArgs) -> Self {
        let (trace, caller) = if config.trust_incoming_trace {
            (TraceContext::from_headers(headers), None)
        } else {
            (TraceContext::root(), Caller::from_headers(headers))
        };
        let row = head.route.row();
        let client = client::address(head.client.address(), headers, config.trusted_hops);
        let header = |wanted: bool, name: HeaderName| {
            let value = wanted.then(|| headers.get(name));
            value.flatten().cloned()
        };
        Self {
            trace,
            caller,
            route: head.route,
            method: head.method,
            uri: head.uri,
            client,
            shown_client: config.log_client_address.shown(client),
            identity: None,
            accept: header(row.page, ACCEPT),
            origin: header(row.is_for_scripts(), ORIGIN),
        }
    }

    /// Returns true if an error may be shown as a page.
    pub(super) fn can_be_a_page(&self) -> bool {
        self.route.row().page && matches!(*self.method, Method::GET | Method::HEAD)
    }

    /// Returns true if a response tells the rate limit. A redirect does not: people follow it, and it is the hot path.
    pub(super) fn tells_limit(&self, status: StatusCode) -> bool {
        self.route.row().tells_limit() && !status.is_redirection()
    }

    /// Finds the sender. Returns the error with which the request is refused, if it is. The refusal comes after the
    /// rate limits, so that keys cannot be tried without end.
    pub(super) fn identify(&mut self, guard: &Guard, headers: &HeaderMap) -> Option<Error> {
        let (identity, error) = guard.check(self.route.row().scope, headers);
        self.identity = identity;
        error
    }

    /// Returns the name of the client whose key the request has.
    pub(super) fn client_name(&self) -> Option<&str> {
        self.identity.as_ref().map(|client| &*client.name)
    }

    /// Returns the bucket of the rate limits: the client's own, or that of its address.
    pub(super) fn bucket(&self) -> LimitedClient {
        match &self.identity {
            None => self.client.into(),
            Some(client) => LimitedClient::Key(client.number),
        }
    }

    /// Returns the error of an empty bucket.
    pub(super) fn rate_limited(&self, wait: Duration) -> Error {
        match self.identity {
            None => Error::RateLimited(wait),
            Some(_) => Error::KeyRateLimited(wait),
        }
    }

    /// Returns the path, cut to [`MAX_PATH`] bytes at most: a path may contain characters of several bytes.
    pub(super) fn path(&self) -> &str {
        let path = self.uri.path();
        &path[..path.floor_char_boundary(MAX_PATH)]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Returns the facts about a request of this machine that matched no route.
    pub(in crate::observe) fn facts<'a>(method: &'a Method, uri: &'a Uri) -> RequestFacts<'a> {
        RequestFacts {
            trace: TraceContext::root(),
            caller: None,
            route: Route::from_template(None),
            method,
            uri,
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            shown_client: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            identity: None,
            accept: None,
            origin: None,
        }
    }

    #[test]
    fn no_path_is_longer_in_the_log_than_its_limit() {
        // Byte 256 is the second byte of a character, the third one, and the first one.
        for (ascii, expected) in [(254, 255), (253, 254), (255, 256)] {
            let path = format!("/{}{}", "a".repeat(ascii), "\u{20ac}".repeat(2000));
            let uri = path.parse().unwrap();
            assert_eq!(facts(&Method::GET, &uri).path(), &path[..expected]);
        }
    }
}
