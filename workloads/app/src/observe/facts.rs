//! The facts about a request that are known before it is handled.

use std::{net::IpAddr, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{ACCEPT, CONTENT_LENGTH, ORIGIN, TRANSFER_ENCODING},
};
use shortener_common::{
    server::Client as Connected,
    trace::{Caller, TraceContext},
};

use crate::{
    auth::{self, Guard},
    client,
    config::ServeArgs,
    cross_origin::is_foreign,
    error::Error,
    limits::LimitedClient,
    redirect::Target,
    rights::Rights,
    route::Route,
    routes::docs,
    scope::Scope,
    storage::Storage,
};

/// The maximum length of a path in the log line and the span, in bytes.
const MAX_PATH: usize = 256;

/// The size in bytes of the largest body of all routes.
const LARGEST_BODY: u64 = docs::MAX_BODY as u64;

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
    /// The address at the other end of the connection.
    peer: IpAddr,
    pub(super) client: IpAddr,
    /// What the log line and the span show of that address.
    pub(super) shown_client: Option<IpAddr>,
    /// The size of the body in bytes, as the client announces it; 0 for requests that store nothing.
    pub(super) body: u64,
    /// The client whose key the request has, or the person whom a proxy names.
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
        let peer = head.client.address();
        let client = client::address(peer, headers, config.trusted_hops);
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
            peer,
            client,
            shown_client: config.log_client_address.shown(client),
            body: announced(head.method, headers),
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
        let (identity, error) = guard.check(self.route.row().scope, self.peer, headers);
        self.identity = identity;
        error
    }

    /// Returns the error of a change that a page of another origin made a browser send: one by management, or one for a person,
    /// whom a cookie of the proxy may have signed in.
    pub(super) fn cross_origin(&self, headers: &HeaderMap) -> Option<Error> {
        let manages = self.route.row().scope.is_some_and(Scope::is_management);
        let is_person = self.client_name().is_some_and(auth::is_person);
        ((manages || is_person) && is_foreign(self.method, headers)).then_some(Error::CrossOrigin)
    }

    /// Returns the error of a request without a key for whose data the database has no more space.
    pub(super) fn reserved(&self, storage: &Storage) -> Option<Error> {
        let adds = self.identity.is_none() && matches!(*self.method, Method::POST | Method::PUT);
        let stores = self.route.row().stores.filter(|_| adds)?;
        (!storage.admits(stores)).then_some(Error::StorageReserved)
    }

    /// Returns the rights of the client in management; `None` on other routes.
    pub(super) fn rights(&self) -> Option<Rights> {
        let least = self.route.row().scope?;
        let client = self.identity.as_ref().filter(|_| least.is_management())?;
        Rights::of(least, client)
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

    /// Returns the path, cut to [`MAX_PATH`] bytes at most: a path may contain characters of several bytes. Arguments of a
    /// link are left out, because they may be private.
    pub(super) fn path(&self) -> &str {
        let path = self.uri.path();
        let path = match self.route {
            Route::WITH_ARGUMENTS => {
                let arguments = Target::of(path).and_then(|target| target.arguments);
                arguments.map_or(path, |arguments| &path[..path.len() - arguments.len() - 1])
            }
            _ => path,
        };
        &path[..path.floor_char_boundary(MAX_PATH)]
    }
}

/// Returns the size of a body in bytes. A client that does not announce it may send the largest one.
fn announced(method: &Method, headers: &HeaderMap) -> u64 {
    if method.is_safe() {
        return 0;
    }
    let length = headers.get(CONTENT_LENGTH).map(|length| {
        let length = length.to_str().ok().and_then(|length| length.parse().ok());
        length.unwrap_or(LARGEST_BODY)
    });
    match length {
        Some(length) => length.min(LARGEST_BODY),
        None if headers.contains_key(TRANSFER_ENCODING) => LARGEST_BODY,
        None => 0,
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
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            shown_client: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            body: 0,
            identity: None,
            accept: None,
            origin: None,
        }
    }

    #[test]
    fn a_body_is_as_large_as_announced_and_otherwise_as_large_as_possible() {
        for (method, name, value, expected) in [
            (Method::POST, "content-length", "0", 0),
            (Method::POST, "content-length", "65536", 65_536),
            (Method::PUT, "content-length", "9999999999999", LARGEST_BODY),
            (Method::PUT, "content-length", "x", LARGEST_BODY),
            (Method::PATCH, "transfer-encoding", "chunked", LARGEST_BODY),
            (Method::POST, "host", "a", 0),
            (Method::GET, "content-length", "65536", 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(announced(&method, &headers), expected, "{method} {value}");
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
