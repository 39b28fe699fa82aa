//! One attempt: a request over TLS to an address that everybody can reach, and nothing of the answer but its status.

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use http::{
    HeaderMap,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use reqwest::{
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use super::{
    message::Message,
    schedule::{Failure, Outcome},
    secrets::WebhookSecret,
};
use crate::destination;

/// The time limit of an attempt.
pub const LIMIT: Duration = Duration::from_secs(15);

/// Which connections are made.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The authorities of the receivers' certificates.
    pub authorities: RootCertStore,
    /// Returns true for the addresses to which a connection is made.
    pub is_allowed: fn(IpAddr) -> bool,
}

impl Default for Trust {
    /// Returns what every stack has: the authorities that browsers trust, and public addresses.
    fn default() -> Self {
        Self {
            authorities: webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
            is_allowed: destination::is_public,
        }
    }
}

/// A client; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    is_allowed: fn(IpAddr) -> bool,
}

impl Client {
    /// Returns a client.
    ///
    /// # Errors
    /// Fails if the settings of TLS are refused.
    pub fn new(trust: Trust) -> anyhow::Result<Self> {
        let Trust {
            authorities,
            is_allowed,
        } = trust;
        let tls =
            ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()?
                .with_root_certificates(authorities)
                .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(true)
            .no_proxy()
            .redirect(Policy::none())
            .dns_resolver(Resolver(is_allowed))
            .timeout(LIMIT)
            .user_agent(concat!("shortener-webhooks/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, is_allowed })
    }

    /// Sends a message to an address. The body of the answer is never read.
    pub async fn send(&self, url: &Url, message: Message, secrets: &[WebhookSecret]) -> Outcome {
        // An address in the URL is never resolved.
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) | None => None,
        };
        if literal.is_some_and(|address| !(self.is_allowed)(address)) {
            return Outcome::Failed(Failure::without_answer(PRIVATE));
        }
        let signatures = message.signatures(secrets);
        let request = self
            .http
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp)
            .header("webhook-signature", signatures)
            .body(message.body);
        match request.send().await {
            Ok(response) if response.status().is_success() => Outcome::Delivered,
            Ok(response) => Outcome::Failed(Failure {
                status: Some(response.status().as_u16()),
                error: None,
                retry_after: retry_after(response.headers()),
            }),
            Err(error) => Outcome::Failed(Failure::without_answer(word(&error))),
        }
    }
}

/// The words for attempts without an answer.
const PRIVATE: &str = "private_address";
const TIMEOUT: &str = "timeout";
const UNRESOLVED: &str = "unresolved";
const UNREACHABLE: &str = "unreachable";
const BROKEN: &str = "broken_answer";

fn word(error: &reqwest::Error) -> &'static str {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return match refusal {
                Refusal::Private => PRIVATE,
                Refusal::Unresolved => UNRESOLVED,
            };
        }
        cause = error.source();
    }
    if error.is_timeout() {
        TIMEOUT
    } else if error.is_connect() {
        UNREACHABLE
    } else {
        BROKEN
    }
}

/// Returns the pause for which an answer asks, in seconds. A date is left out: the clocks may differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Why a name leads nowhere.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Refusal {
    #[error("the name leads to private addresses only")]
    Private,
    #[error("the name cannot be resolved")]
    Unresolved,
}

/// A resolver that leaves out the addresses to which no connection may be made. The client connects to what it returns, so
/// nothing can change in between.
struct Resolver(fn(IpAddr) -> bool);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self(is_allowed) = *self;
        Box::pin(async move {
            // The client puts the port of the URL in the place of 0.
            let found = tokio::net::lookup_host((absolute(name.as_str()), 0)).await;
            let found: Vec<SocketAddr> = found.map_err(|_| Refusal::Unresolved)?.collect();
            Ok(allowed(found, is_allowed)?)
        })
    }
}

/// Returns a name as DNS knows it, with a dot at its end. Otherwise each end of the search list is tried before it, and a
/// Service `example` in a namespace `com` would be found in the place of `example.com`. A name without a dot, such as
/// `localhost`, is none of the internet.
fn absolute(name: &str) -> String {
    match name.contains('.') && !name.ends_with('.') {
        true => format!("{name}."),
        false => name.to_owned(),
    }
}

fn allowed(found: Vec<SocketAddr>, is_allowed: fn(IpAddr) -> bool) -> Result<Addrs, Refusal> {
    let is_known = !found.is_empty();
    let allowed: Vec<_> = found
        .into_iter()
        .filter(|address| is_allowed(address.ip()))
        .collect();
    match allowed.is_empty() {
        false => Ok(Box::new(allowed.into_iter())),
        true if is_known => Err(Refusal::Private),
        true => Err(Refusal::Unresolved),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_name_leads_to_its_public_addresses_only() {
        let addresses = |texts: &[&str]| {
            let texts = texts.iter();
            texts
                .map(|text| SocketAddr::new(text.parse().unwrap(), 0))
                .collect::<Vec<_>>()
        };
        let mixed = addresses(&["10.0.0.1", "8.8.8.8", "::1", "::ffff:127.0.0.1"]);
        let left: Vec<_> = allowed(mixed, destination::is_public)
            .ok()
            .unwrap()
            .collect();
        assert_eq!(left, addresses(&["8.8.8.8"]));
        let private = allowed(addresses(&["fd00::1"]), destination::is_public);
        assert!(matches!(private, Err(Refusal::Private)));
        let nothing = allowed(Vec::new(), destination::is_public);
        assert!(matches!(nothing, Err(Refusal::Unresolved)));
    }

    #[test]
    fn a_name_is_looked_up_without_the_search_list() {
        for (name, looked_up) in [
            ("hooks.example.com", "hooks.example.com."),
            ("hooks.example.com.", "hooks.example.com."),
            ("localhost", "localhost"),
        ] {
            assert_eq!(absolute(name), looked_up);
        }
    }

    #[test]
    fn a_pause_is_a_number_of_seconds() {
        for (value, expected) in [("7", Some(7)), ("-1", None), ("soon", None), ("", None)] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
            assert_eq!(
                retry_after(&headers),
                expected.map(Duration::from_secs),
                "{value}"
            );
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
