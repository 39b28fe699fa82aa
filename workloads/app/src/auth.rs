//! The callers of the public port: clients with a key, people whom a proxy has signed in, and anyone.
//!
//! Redirects, health and the OpenAPI document never need a key. The other routes have a scope; the settings say which
//! scopes are protected. Those of management always are.

mod keys;
mod management;
mod proxy;
mod watch;

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Request, header::AUTHORIZATION};
use tokio::sync::watch::Receiver;
use url::Url;

use self::{keys::ApiKeys, proxy::Proxy, watch::Holders};
pub use self::{
    keys::{Client, is_client, is_person},
    management::ManagementKey,
    proxy::ProxySettings,
    watch::Watcher,
};
use crate::{
    error::Error,
    metrics::AuthMetrics,
    rights::Rights,
    scope::{Scope, Scopes},
};

/// The header with a key, as an alternative to `Authorization: Bearer`.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

const MISSING: &str =
    "This needs a key; send it as `Authorization: Bearer <key>` or as `X-Api-Key`.";
const INVALID: &str = "The key is malformed or not known, or the request has several.";
const NO_KEYS: &str = "Management needs a key, and this stack has none: set `gateway.auth`.";

/// Returns the name of the client that sent a request; `None` without a key. The middleware adds it to the request.
pub fn client_of<B>(request: &Request<B>) -> Option<&str> {
    let client: Option<&Client> = request.extensions().get();
    client.map(|client| &*client.name)
}

/// The check of the keys in requests. The default one knows no keys, so nothing but management is refused.
#[derive(Debug, Default)]
pub struct Guard {
    realm: String,
    protection: Option<Protection>,
}

#[derive(Debug)]
struct Protection {
    keys: Receiver<Arc<ApiKeys>>,
    scopes: Scopes,
    metrics: AuthMetrics,
    proxy: Option<Proxy>,
}

impl Guard {
    /// Returns the guard of a service without keys.
    pub fn without_keys(public_url: &Url) -> Self {
        Self {
            realm: public_url.host_str().unwrap_or_default().to_owned(),
            protection: None,
        }
    }

    /// Returns a guard of these scopes with the keys in these folders, and the task that follows the folders.
    pub fn with_keys(
        public_url: &Url,
        scopes: Scopes,
        folders: Vec<PathBuf>,
        metrics: AuthMetrics,
    ) -> (Self, Watcher) {
        let (watcher, keys) = Watcher::start(folders, Holders::Clients(metrics.clone()));
        let protection = Protection {
            keys,
            scopes,
            metrics,
            proxy: None,
        };
        let guard = Self {
            protection: Some(protection),
            ..Self::without_keys(public_url)
        };
        (guard, watcher)
    }

    /// Lets people in whom a proxy with a secret in this folder has signed in. Returns the task that follows the folder.
    pub fn trust_proxy(&mut self, settings: ProxySettings, folder: PathBuf) -> Option<Watcher> {
        let protection = self.protection.as_mut()?;
        let (watcher, secrets) = Watcher::start(vec![folder], Holders::Proxy);
        protection.proxy = Some(Proxy::new(settings, secrets));
        Some(watcher)
    }

    /// Returns the client that sent a request to a route with this scope, and the error with which it is refused, if it is.
    /// Where the scope is open, a key that is not known is as good as none. A known key counts before what a proxy says.
    /// `peer` is the address at the other end of the connection.
    pub fn check(
        &self,
        scope: Option<Scope>,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> (Option<Client>, Option<Error>) {
        let Some(scope) = scope else {
            return (None, None);
        };
        let Some(protection) = &self.protection else {
            let refused = scope.is_management();
            return (None, refused.then(|| self.unauthorized(NO_KEYS, "")));
        };
        let metrics = &protection.metrics;
        let needed = scope.is_management() || protection.scopes.contains(scope);
        let client = match protection.identify(peer, headers) {
            Ok(client) => client,
            Err(Unidentified::NoKey) => {
                if needed {
                    metrics.missing.inc();
                }
                return (None, needed.then(|| self.unauthorized(MISSING, "")));
            }
            Err(Unidentified::Invalid(detail)) => {
                metrics.invalid.inc();
                let error = || self.unauthorized(detail, ", error=\"invalid_token\"");
                return (None, needed.then(error));
            }
        };
        let forbidden = needed && Rights::of(scope, &client).is_none();
        if forbidden {
            metrics.forbidden.inc();
        } else {
            metrics.accepted.inc();
        }
        (Some(client), forbidden.then(|| self.forbidden(scope)))
    }

    /// Returns the error of something that needs a key with this scope, although the route may be open; `None` if the
    /// service has no keys.
    pub fn refusal(&self, scope: Scope, client: Option<&Client>) -> Option<Error> {
        self.protection.as_ref()?;
        Some(match client {
            None => self.unauthorized(MISSING, ""),
            Some(_) => self.forbidden(scope),
        })
    }

    /// Returns true if a client of this name has a key.
    pub fn has_client(&self, name: &str) -> bool {
        let protection = self.protection.as_ref();
        protection.is_some_and(|protection| protection.keys.borrow().has_client(name))
    }

    /// Returns the error of a request for a link that the rights of its client do not include.
    pub fn foreign_link(&self) -> Error {
        let scope = Scope::LinksAll.as_str();
        Error::ForeignLink {
            scope,
            challenge: self.insufficient(scope),
        }
    }

    fn unauthorized(&self, detail: &'static str, error: &str) -> Error {
        Error::Unauthorized {
            detail,
            challenge: self.challenge(error),
        }
    }

    fn forbidden(&self, scope: Scope) -> Error {
        let scope = scope.as_str();
        Error::Forbidden {
            scope,
            challenge: self.insufficient(scope),
        }
    }

    fn insufficient(&self, scope: &str) -> HeaderValue {
        self.challenge(&format!(
            ", error=\"insufficient_scope\", scope=\"{scope}\""
        ))
    }

    fn challenge(&self, error: &str) -> HeaderValue {
        let challenge = format!("Bearer realm=\"{}\"{error}", self.realm);
        HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

/// The reasons for which the sender of a request is unknown.
enum Unidentified {
    NoKey,
    /// There is something by which nobody is found, for this reason.
    Invalid(&'static str),
}

impl Protection {
    /// Returns the client with the key of a request, or else the person whom a proxy names.
    fn identify(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Client, Unidentified> {
        let key = presented(headers);
        let known = key.flatten();
        let known = known.and_then(|key| self.keys.borrow().find(key).cloned());
        if let Some(client) = known {
            return Ok(client);
        }
        let proxy = self.proxy.as_ref();
        match proxy.map_or(Ok(None), |proxy| proxy.identify(peer, headers)) {
            Ok(Some(person)) => Ok(person),
            Err(reason) => Err(Unidentified::Invalid(reason)),
            Ok(None) if key.is_some() => Err(Unidentified::Invalid(INVALID)),
            Ok(None) => Err(Unidentified::NoKey),
        }
    }
}

/// Returns the key of a request: a bearer token, or else the value of `X-Api-Key`. Credentials of another scheme are
/// none: they may be meant for a proxy. Of several values none counts, because a proxy may have judged another one.
fn presented(headers: &HeaderMap) -> Option<Option<&[u8]>> {
    let is_repeated = |name| headers.get_all(name).iter().nth(1).is_some();
    if is_repeated(AUTHORIZATION) || is_repeated(X_API_KEY) {
        return Some(None);
    }
    let token = headers.get(AUTHORIZATION);
    let token = token.and_then(|value| bearer(value.as_bytes()));
    let key = token.or_else(|| headers.get(X_API_KEY).map(HeaderValue::as_bytes))?;
    Some(Some(key.trim_ascii()))
}

/// Returns the token of a bearer; the name of the scheme has no case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    let is_alone = token.first().is_none_or(|byte| *byte == b' ');
    (scheme.eq_ignore_ascii_case(SCHEME) && is_alone).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::{fs, net::Ipv4Addr};

    use shortener_common::exposition::Format;

    use super::*;
    use crate::metrics::Metrics;

    const ALL: &str = "key-of-a-client-with-every-scope";
    const JOBS: &str = "key-of-a-client-with-scope--jobs";
    const UNKNOWN: &str = "key-that-is-well-formed--unknown";

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A guard with two clients, its folder and its metrics.
    struct World {
        guard: Guard,
        metrics: Metrics,
        _folder: tempfile::TempDir,
    }

    fn world(protect: &[Scope]) -> World {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in [("all", ALL), ("queue", JOBS), ("queue.scopes", "jobs")] {
            fs::write(folder.path().join(name), value).unwrap();
        }
        let mut metrics = Metrics::default();
        let (guard, _) = Guard::with_keys(
            &"https://go.example.com:8443/".parse().unwrap(),
            protect.iter().copied().collect(),
            vec![folder.path().to_owned()],
            AuthMetrics::register(&mut metrics.registry),
        );
        World {
            guard,
            metrics,
            _folder: folder,
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    /// Returns the name of the caller, and the status and the challenge of a refusal.
    fn checked(
        guard: &Guard,
        scope: Scope,
        headers: &HeaderMap,
    ) -> (Option<String>, Option<(u16, String)>) {
        let (caller, denial) = guard.check(Some(scope), PEER, headers);
        let text = |challenge: HeaderValue| challenge.to_str().unwrap().to_owned();
        let denial = denial.map(|denial| match denial {
            Error::Unauthorized { challenge, .. } => (401, text(challenge)),
            Error::Forbidden { challenge, .. } => (403, text(challenge)),
            other => panic!("{other}"),
        });
        (caller.map(|client| client.name.to_string()), denial)
    }

    const PROTECTED: [Scope; 4] = [Scope::Shorten, Scope::Jobs, Scope::Docs, Scope::Metrics];

    #[test]
    fn each_protected_scope_gives_one_of_five_answers_by_either_header() {
        let world = world(&PROTECTED);
        let realm = "Bearer realm=\"go.example.com\"";
        let invalid = format!("{realm}, error=\"invalid_token\"");
        for scope in Scope::ALL {
            let check =
                |lines: &[(&'static str, &str)]| checked(&world.guard, scope, &headers(lines));
            let missing = (None, Some((401, realm.to_owned())));
            assert_eq!(check(&[]), missing);
            assert_eq!(check(&[("authorization", "Basic dTpw")]), missing);
            for header in ["authorization", "x-api-key"] {
                let value = |key: &str| match header {
                    "authorization" => format!("Bearer {key}"),
                    _ => key.to_owned(),
                };
                let one = |key: &str| check(&[(header, value(key).as_str())]);
                assert_eq!(one(ALL), (Some("all".to_owned()), None));
                for bad in [UNKNOWN, "", "short", &ALL[1..]] {
                    assert_eq!(one(bad), (None, Some((401, invalid.clone()))), "{bad}");
                }
                let key = value(ALL);
                let twice = check(&[(header, key.as_str()), (header, key.as_str())]);
                assert_eq!(twice, (None, Some((401, invalid.clone()))));
                let word = scope.as_str();
                let challenge = format!("{realm}, error=\"insufficient_scope\", scope=\"{word}\"");
                let refused = (scope != Scope::Jobs).then_some((403, challenge));
                assert_eq!(one(JOBS), (Some("queue".to_owned()), refused));
            }
        }
    }

    #[test]
    fn a_bearer_goes_before_the_other_header_and_its_scheme_has_no_case() {
        let world = world(&PROTECTED);
        for (lines, client) in [
            ([("authorization", "bearer   "), ("x-api-key", ALL)], None),
            (
                [
                    ("authorization", "BEARER key-of-a-client-with-scope--jobs"),
                    ("x-api-key", ALL),
                ],
                Some("queue"),
            ),
            (
                [("authorization", "Basic dTpw"), ("x-api-key", ALL)],
                Some("all"),
            ),
            (
                [("authorization", "Bearers x"), ("x-api-key", ALL)],
                Some("all"),
            ),
        ] {
            let (caller, _) = world.guard.check(Some(Scope::Jobs), PEER, &headers(&lines));
            assert_eq!(
                caller.as_ref().map(|caller| &*caller.name),
                client,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn an_open_scope_refuses_no_one_and_still_knows_its_clients() {
        let world = world(&[Scope::Docs]);
        let check = |key: &str| {
            checked(
                &world.guard,
                Scope::Shorten,
                &headers(&[("x-api-key", key)]),
            )
        };
        assert_eq!(check(ALL), (Some("all".to_owned()), None));
        assert_eq!(check(JOBS), (Some("queue".to_owned()), None));
        assert_eq!(check(UNKNOWN), (None, None));
        assert_eq!(
            checked(&world.guard, Scope::Shorten, &HeaderMap::new()),
            (None, None)
        );
    }

    #[test]
    fn without_keys_only_management_is_refused() {
        let guard = Guard::without_keys(&"http://go.example.com/".parse().unwrap());
        for scope in PROTECTED {
            assert_eq!(
                checked(&guard, scope, &headers(&[("x-api-key", ALL)])),
                (None, None)
            );
        }
        let (_, denial) = guard.check(Some(Scope::Admin), PEER, &headers(&[("x-api-key", ALL)]));
        assert!(matches!(
            denial,
            Some(Error::Unauthorized {
                detail: NO_KEYS,
                ..
            })
        ));
    }

    #[test]
    fn what_needs_a_key_on_an_open_route_is_refused_by_what_the_sender_lacks() {
        let world = world(&[Scope::Docs]);
        let status = |lines: &[(&'static str, &str)]| {
            let (client, denial) = world
                .guard
                .check(Some(Scope::Shorten), PEER, &headers(lines));
            assert!(denial.is_none());
            match world.guard.refusal(Scope::Shorten, client.as_ref()) {
                Some(Error::Unauthorized { .. }) => 401,
                Some(Error::Forbidden { scope, .. }) => {
                    assert_eq!(scope, "shorten");
                    403
                }
                _ => 0,
            }
        };
        assert_eq!(status(&[]), 401);
        assert_eq!(status(&[("x-api-key", UNKNOWN)]), 401);
        assert_eq!(status(&[("x-api-key", JOBS)]), 403);
        let keyless = Guard::without_keys(&"http://go.example.com/".parse().unwrap());
        assert!(keyless.refusal(Scope::Jobs, None).is_none());
    }

    #[test]
    fn a_route_without_a_scope_never_reads_a_key() {
        let world = world(&PROTECTED);
        let (client, denial) = world
            .guard
            .check(None, PEER, &headers(&[("x-api-key", ALL)]));
        assert!(client.is_none() && denial.is_none());
    }

    #[test]
    fn every_answer_is_counted_and_no_metric_names_a_client_or_a_key() {
        let world = world(&PROTECTED);
        for key in [ALL, JOBS, UNKNOWN] {
            let _ = world
                .guard
                .check(Some(Scope::Docs), PEER, &headers(&[("x-api-key", key)]));
        }
        let _ = world
            .guard
            .check(Some(Scope::Docs), PEER, &HeaderMap::new());
        let text = Format::Classic.encode(&world.metrics.registry).unwrap();
        for line in [
            "auth_requests_total{result=\"accepted\"} 1",
            "auth_requests_total{result=\"missing\"} 1",
            "auth_requests_total{result=\"invalid\"} 1",
            "auth_requests_total{result=\"forbidden\"} 1",
            "auth_keys{state=\"loaded\"} 2",
            "auth_keys{state=\"ignored\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        for secret in ["queue", "key-of", "key-that"] {
            assert!(!text.contains(secret), "{secret}\n{text}");
        }
    }

    #[test]
    fn a_person_of_a_trusted_proxy_is_let_in_and_a_known_key_counts_first() {
        let mut world = world(&PROTECTED);
        let secret = tempfile::tempdir().unwrap();
        fs::write(secret.path().join("secret"), ALL.replace("key", "pxy")).unwrap();
        let settings = ProxySettings {
            user: HeaderName::from_static("x-user"),
            groups: HeaderName::from_static("x-groups"),
            peers: None,
            scopes: [("staff".to_owned(), Scopes::from_iter([Scope::Admin]))].into(),
        };
        let folder = secret.path().to_owned();
        let trusted = world.guard.trust_proxy(settings.clone(), folder.clone());
        assert!(trusted.is_some());
        let proxied = [
            ("x-auth-proxy-secret", "pxy-of-a-client-with-every-scope"),
            ("x-user", "ann"),
            ("x-groups", "staff"),
        ];
        let forged = [("x-auth-proxy-secret", UNKNOWN), proxied[1], proxied[2]];
        let of = |lines: &[(&'static str, &str)], more: &[(&'static str, &str)]| {
            let (client, denial) = checked(
                &world.guard,
                Scope::Admin,
                &headers(&[lines, more].concat()),
            );
            (client, denial.map(|(status, _)| status))
        };
        let key = |key| [("x-api-key", key)];
        let ann = (Some("user/ann".to_owned()), None);
        assert_eq!(of(&proxied, &[]), ann);
        // A proxy may pass on a token of its own.
        assert_eq!(of(&proxied, &key(UNKNOWN)), ann);
        assert_eq!(of(&proxied, &key(ALL)), (Some("all".to_owned()), None));
        assert_eq!(of(&forged, &key(ALL)), (Some("all".to_owned()), None));
        assert_eq!(of(&forged, &[]), (None, Some(401)));
        assert_eq!(of(&proxied[1..], &[]), (None, Some(401)));
        // The secret of the proxy is no key.
        assert_eq!(
            of(&key("pxy-of-a-client-with-every-scope"), &[]),
            (None, Some(401))
        );
        let without_group = of(&proxied[..2], &[]);
        assert_eq!(without_group, (Some("user/ann".to_owned()), Some(403)));
        let mut keyless = Guard::without_keys(&"http://go.example.com/".parse().unwrap());
        assert!(keyless.trust_proxy(settings, folder).is_none());
    }
}
