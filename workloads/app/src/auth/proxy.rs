//! People that a proxy before the service has signed in. It names them in a header, so anybody could send one: a request
//! counts only from an address of the proxy, and with a secret that nobody else has.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use tokio::sync::watch::Receiver;

use super::keys::{ApiKeys, Client, person};
use crate::scope::Scopes;

/// The header with the secret of the proxy.
pub const SECRET: HeaderName = HeaderName::from_static("x-auth-proxy-secret");
/// The group to which everybody belongs who is signed in.
const EVERYBODY: &str = "*";

const UNTRUSTED: &str =
    "The request has a secret of the proxy, but comes from an address that is not trusted.";
const UNKNOWN: &str = "The secret of the proxy is not known.";
const UNNAMED: &str =
    "The proxy has to name the user once, in 1 to 128 visible ASCII characters without a comma.";

/// What the proxy sends, from where, and what the people may do.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// The header with the name of the person.
    pub user: HeaderName,
    /// The header with the groups of the person, between commas.
    pub groups: HeaderName,
    /// The addresses of the proxy; `None` if the gateway has checked them.
    pub peers: Option<Vec<IpNet>>,
    /// The scopes of each group.
    pub scopes: BTreeMap<String, Scopes>,
}

/// The check of what the proxy sends.
#[derive(Debug)]
pub struct Proxy {
    settings: ProxySettings,
    /// Its secrets, in the form of keys.
    secrets: Receiver<Arc<ApiKeys>>,
}

impl Proxy {
    pub fn new(settings: ProxySettings, secrets: Receiver<Arc<ApiKeys>>) -> Self {
        Self { settings, secrets }
    }

    /// Returns the person who sent a request through the proxy; `None` without a secret of the proxy.
    ///
    /// # Errors
    /// Says why the headers of the proxy do not count, although there is a secret.
    pub fn identify(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Option<Client>, &'static str> {
        let mut secrets = headers.get_all(SECRET).iter();
        let secret = match (secrets.next(), secrets.next()) {
            (None, _) => return Ok(None),
            (Some(secret), None) => secret.as_bytes().trim_ascii(),
            (Some(_), Some(_)) => return Err(UNKNOWN),
        };
        if !self.trusts(peer) {
            return Err(UNTRUSTED);
        }
        if self.secrets.borrow().find(secret).is_none() {
            return Err(UNKNOWN);
        }
        let mut names = headers.get_all(&self.settings.user).iter();
        let (Some(name), None) = (names.next(), names.next()) else {
            return Err(UNNAMED);
        };
        let name = name.to_str().unwrap_or_default().trim();
        let person = person(name, self.scopes(headers));
        person.map(Some).ok_or(UNNAMED)
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let peers = self.settings.peers.as_ref();
        peers.is_none_or(|peers| peers.iter().any(|trusted| trusted.contains(&peer)))
    }

    /// Returns the scopes of all groups of the person. They are read in every request, so that a lost group counts at once.
    fn scopes(&self, headers: &HeaderMap) -> Scopes {
        let values = headers.get_all(&self.settings.groups).iter();
        let groups = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let groups = groups.filter_map(|group| str::from_utf8(group.trim_ascii()).ok());
        let named = groups.filter(|group| *group != EVERYBODY);
        let scopes = named
            .chain([EVERYBODY])
            .filter_map(|group| self.settings.scopes.get(group));
        scopes.copied().fold(Scopes::default(), Scopes::union)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;
    use tokio::sync::watch;

    use super::*;
    use crate::{auth::keys::Entries, scope::Scope};

    const OLD: &str = "the-secret-of-the-proxy-so-far--";
    const NEW: &str = "the-secret-of-the-proxy-from-now";
    const PROXY: &str = "10.1.2.3";

    fn proxy(peers: Option<&[&str]>) -> Proxy {
        let lines = format!("{OLD}\n{NEW}\n").into_bytes();
        let secrets = ApiKeys::parse(&Entries::from([("secret".to_owned(), lines)]));
        let scopes = [
            ("editors", [Scope::LinksOwn, Scope::Shorten].as_slice()),
            ("staff", &[Scope::LinksAll]),
            ("*", &[Scope::Jobs]),
        ];
        let settings = ProxySettings {
            user: HeaderName::from_static("x-auth-request-user"),
            groups: HeaderName::from_static("x-auth-request-groups"),
            peers: peers.map(|peers| peers.iter().map(|peer| peer.parse().unwrap()).collect()),
            scopes: scopes
                .map(|(group, scopes)| (group.to_owned(), scopes.iter().copied().collect()))
                .into(),
        };
        Proxy::new(settings, watch::channel(Arc::new(secrets)).1)
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    /// Returns the name and the scopes of the person.
    fn identified(
        proxy: &Proxy,
        peer: &str,
        lines: &[(&'static str, &str)],
    ) -> Result<Option<(String, String)>, &'static str> {
        let found = proxy.identify(peer.parse().unwrap(), &headers(lines))?;
        let words = |client: &Client| {
            let all = Scope::ALL.into_iter();
            let held = all.filter(|scope| client.scopes.contains(*scope));
            held.map(Scope::as_str).collect::<Vec<_>>().join(" ")
        };
        Ok(found.map(|client| (client.name.to_string(), words(&client))))
    }

    const ANN: (&str, &str) = ("x-auth-request-user", "ann@example.com");

    #[test]
    fn a_person_counts_only_with_a_secret_and_from_the_proxy() {
        let trusting = proxy(Some(&["10.1.0.0/16", "fd00::/8"]));
        let ann = Ok(Some(("user/ann@example.com".to_owned(), "jobs".to_owned())));
        for (peer, secret, expected) in [
            (PROXY, Some(OLD), ann.clone()),
            (PROXY, Some(NEW), ann.clone()),
            ("::ffff:10.1.2.3", Some(NEW), ann.clone()),
            ("fd00::7", Some(NEW), ann.clone()),
            ("10.2.0.1", Some(NEW), Err(UNTRUSTED)),
            ("::1", Some(NEW), Err(UNTRUSTED)),
            (PROXY, Some(&NEW[1..]), Err(UNKNOWN)),
            (PROXY, Some(""), Err(UNKNOWN)),
            (PROXY, None, Ok(None)),
            ("10.2.0.1", None, Ok(None)),
        ] {
            let secret = secret.map(|secret| ("x-auth-proxy-secret", secret));
            let lines: Vec<_> = [ANN].into_iter().chain(secret).collect();
            assert_eq!(
                identified(&trusting, peer, &lines),
                expected,
                "{peer} {lines:?}"
            );
        }
        let any = proxy(None);
        let lines = [ANN, ("x-auth-proxy-secret", NEW)];
        assert_eq!(identified(&any, "203.0.113.9", &lines), ann);
        let twice = [lines[0], lines[1], lines[1]];
        assert_eq!(identified(&any, PROXY, &twice), Err(UNKNOWN));
        assert_eq!(identified(&proxy(Some(&[])), PROXY, &lines), Err(UNTRUSTED));
    }

    #[test]
    fn the_name_is_one_word_in_one_line() {
        let any = proxy(None);
        let name = |names: &[&str]| {
            let names = names.iter().map(|name| ("x-auth-request-user", *name));
            let lines: Vec<_> = names.chain([("x-auth-proxy-secret", NEW)]).collect();
            identified(&any, PROXY, &lines).map(|found| found.unwrap().0)
        };
        let long = "a".repeat(128);
        for good in [
            "ann",
            " ann ",
            "auth0|5f7c",
            "Ann.O'Neil@example.com",
            &long,
        ] {
            assert_eq!(name(&[good]), Ok(format!("user/{}", good.trim())));
        }
        let longer = "a".repeat(129);
        for bad in [
            &[][..],
            &[""],
            &["ann, bob"],
            &["ann", "bob"],
            &["ann bob"],
            &[&longer],
        ] {
            assert_eq!(name(bad), Err(UNNAMED), "{bad:?}");
        }
    }

    #[test]
    fn a_person_has_the_scopes_of_all_groups_and_those_of_everybody() {
        let any = proxy(None);
        let scopes = |groups: &[&str]| {
            let groups = groups.iter().map(|group| ("x-auth-request-groups", *group));
            let lines = [ANN, ("x-auth-proxy-secret", NEW)];
            let lines: Vec<_> = groups.chain(lines).collect();
            identified(&any, PROXY, &lines).unwrap().unwrap().1
        };
        for (groups, expected) in [
            (&[][..], "jobs"),
            (&["editors"], "shorten jobs links:own"),
            (&["editors,staff"], "shorten jobs links:own links:all"),
            (&["editors", " staff "], "shorten jobs links:own links:all"),
            (&["F\u{fc}hrung,editors"], "shorten jobs links:own"),
            (&["Editors", "editor", "staff editors", "*", ""], "jobs"),
        ] {
            assert_eq!(scopes(groups), expected, "{groups:?}");
        }
    }

    proptest! {
        #[test]
        fn nobody_is_identified_without_a_secret(
            secret in proptest::option::of("[!-~]{0,60}"),
            user in "[ -~]{0,40}",
        ) {
            let mut lines = vec![("x-auth-request-user", user.as_str())];
            lines.extend(secret.as_deref().map(|secret| ("x-auth-proxy-secret", secret)));
            prop_assert!(!matches!(identified(&proxy(None), PROXY, &lines), Ok(Some(_))));
        }
    }
}
