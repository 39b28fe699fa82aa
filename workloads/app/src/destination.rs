//! The destinations that links may have: the form of a URL ([`crate::target`]), and the rules of a stack for hosts.
//!
//! The rules are about the text. No name is resolved, because the app never opens a connection to a destination: a name
//! can lead to another address tomorrow, and for another client.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use url::{Host, Url};

use crate::target::{self, OwnAddress, TargetError};

/// The ends of names that are used within a host, a network or a cluster only.
const PRIVATE_NAMES: [&str; 8] = [
    ".localhost",
    ".local",
    ".internal",
    ".home.arpa",
    ".svc",
    ".lan",
    ".corp",
    ".intranet",
];

/// The reason why a text is not a destination here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// It is a destination nowhere.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// There is a list of allowed hosts, and the host is not on it.
    #[error("must lead to a host that this service allows")]
    NotAllowed,
    /// The host is on the list of denied hosts.
    #[error("must not lead to this host, because this service denies it")]
    Denied,
    /// The host is an address or a name of a private network.
    #[error("must not lead to a private address")]
    Private,
}

/// A host, or `*.` and a host for all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This host.
    Exact(String),
    /// Names with this end, which begins with a dot.
    Below(String),
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let below = text.strip_prefix("*.");
        let host = below.unwrap_or(text);
        let plain = |sign: u8| sign.is_ascii_alphanumeric() || matches!(sign, b'-' | b'.');
        let host = match target::canonical_host(host) {
            Some(host) if !host.contains('*') => host,
            // No destination has such a host, so the pattern matches none. It is no reason to refuse the settings.
            None if !host.is_empty() && host.bytes().all(plain) => host.to_owned(),
            _ => {
                return Err(format!(
                    "{text} is not a host: write one such as example.com, or *.example.com for all names below it"
                ));
            }
        };
        Ok(match below {
            None => Self::Exact(host),
            Some(_) => Self::Below(format!(".{host}")),
        })
    }
}

impl HostPattern {
    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => host == name,
            Self::Below(end) => host.len() > end.len() && host.ends_with(end),
        }
    }
}

/// The rules for destinations of one stack.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    /// The addresses of the service itself, which no link leads to.
    pub own: Vec<OwnAddress>,
    /// The hosts that links may lead to; all if empty.
    pub allow: Vec<HostPattern>,
    /// The hosts that links do not lead to, also if they are allowed.
    pub deny: Vec<HostPattern>,
    /// True if links do not lead to private addresses.
    pub deny_private: bool,
}

impl From<&Url> for Destinations {
    /// Returns the rules of a service at this URL without rules of its own.
    fn from(public_url: &Url) -> Self {
        Self {
            own: vec![OwnAddress::from(public_url)],
            ..Self::default()
        }
    }
}

impl Destinations {
    /// Checks a destination.
    ///
    /// # Errors
    /// Returns the first rule that the text violates.
    pub fn check(&self, text: &str) -> Result<(), DestinationError> {
        let url = target::check(text, &self.own)?;
        let host = url.host().ok_or(TargetError::Host)?;
        let host = target::canonical(&host);
        let name = host.to_string();
        let is_in = |patterns: &[HostPattern]| patterns.iter().any(|one| one.matches(&name));
        if !self.allow.is_empty() && !is_in(&self.allow) {
            Err(DestinationError::NotAllowed)
        } else if is_in(&self.deny) {
            Err(DestinationError::Denied)
        } else if self.deny_private && is_private(&host) {
            Err(DestinationError::Private)
        } else {
            Ok(())
        }
    }
}

fn is_private(host: &Host<String>) -> bool {
    match host {
        // A name without a dot is completed by the resolver of a network, or names a host of it.
        Host::Domain(name) => {
            !name.contains('.') || PRIVATE_NAMES.iter().any(|end| name.ends_with(end))
        }
        Host::Ipv4(address) => is_private_v4(*address),
        Host::Ipv6(address) => is_private_v6(*address),
    }
}

/// Returns true if the whole internet can reach an address, so that a connection to it leads into no private network. An address
/// within an address counts, such as one of a translator.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !is_private_v4(address) && !is_special_v4(address),
        IpAddr::V6(address) => !is_private_v6(address) && !is_special_v6(address),
    }
}

/// The addresses of documentation (RFC 5737), and of relays for 6to4 (RFC 7526). No private network has them, and nobody else.
fn is_special_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_relay = [first, second, third] == [192, 88, 99];
    address.is_documentation() || is_relay
}

/// All but the unicast addresses that were assigned (2000::/3) and those of a translator (RFC 6052), and among them the
/// protocol assignments (RFC 2928), 6to4 (RFC 3056), the addresses of documentation (RFC 3849, RFC 9637), and what the translator
/// makes of special IPv4 addresses.
fn is_special_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let is_translated = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    let is_assigned = segments[0] & 0xe000 == 0x2000;
    let is_protocol = segments[0] == 0x2001 && segments[1] < 0x200;
    let is_6to4 = segments[0] == 0x2002;
    let is_documentation =
        segments[..2] == [0x2001, 0xdb8] || (segments[0] == 0x3fff && segments[1] < 0x1000);
    (!is_assigned && !is_translated)
        || is_protocol
        || is_6to4
        || is_documentation
        || embedded_v4(address).is_some_and(is_special_v4)
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    // "This network" (RFC 1122), and addresses that providers share among customers (RFC 6598).
    let is_this_network = first == 0;
    let is_shared = first == 100 && second & 0xc0 == 64;
    // Protocol assignments (RFC 6890), benchmarks (RFC 2544), and reserved addresses (RFC 1112).
    let is_assignment = [first, second, third] == [192, 0, 0];
    let is_benchmark = first == 198 && second & 0xfe == 18;
    let is_reserved = first >= 240;
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || is_this_network
        || is_shared
        || is_assignment
        || is_benchmark
        || is_reserved
}

/// Returns the IPv4 address within an IPv6 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // Mapped and compatible addresses (RFC 4291), and those of a translator (RFC 6052).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4 (RFC 3056).
        | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    // A translator within a network (RFC 8215), Teredo (RFC 4380), which contains two IPv4 addresses, and site-local
    // addresses (RFC 3879).
    let is_local_translator = address.segments()[..3] == [0x64, 0xff9b, 1];
    let is_teredo = address.segments()[..2] == [0x2001, 0];
    let is_site_local = address.segments()[0] & 0xffc0 == 0xfec0;
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || is_local_translator
        || is_teredo
        || is_site_local
        || embedded_v4(address).is_some_and(is_private_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<HostPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn rules(allow: &[&str], deny: &[&str], deny_private: bool) -> Destinations {
        Destinations {
            own: vec![OwnAddress::of_host("go.example.com")],
            allow: patterns(allow),
            deny: patterns(deny),
            deny_private,
        }
    }

    #[test]
    fn a_pattern_is_a_host_or_everything_below_one() {
        for (pattern, matching, others) in [
            (
                "example.com",
                &["https://example.com/", "http://EXAMPLE.com.:8080/x"][..],
                &["https://www.example.com/", "https://badexample.com/"][..],
            ),
            (
                "*.example.com",
                &["https://a.example.com/", "https://a.b.example.com"],
                &["https://example.com/", "https://badexample.com/"],
            ),
            (
                "xn--bcher-kva.example",
                &["https://Bücher.example/"],
                &["https://bucher.example/"],
            ),
            ("192.0.2.7", &["http://0xc0000207/"], &["http://192.0.2.8/"]),
        ] {
            let (allowed, denied) = (rules(&[pattern], &[], false), rules(&[], &[pattern], false));
            for url in matching {
                assert_eq!(allowed.check(url), Ok(()), "{url}");
                assert_eq!(denied.check(url), Err(DestinationError::Denied), "{url}");
            }
            for url in others {
                let not_allowed = Err(DestinationError::NotAllowed);
                assert_eq!(allowed.check(url), not_allowed, "{url}");
                assert_eq!(denied.check(url), Ok(()), "{url}");
            }
        }
    }

    #[test]
    fn what_is_denied_is_denied_although_it_is_allowed() {
        let rules = rules(&["*.example.com"], &["bad.example.com"], false);
        assert_eq!(rules.check("https://good.example.com/"), Ok(()));
        let denied = rules.check("https://bad.example.com/");
        assert_eq!(denied, Err(DestinationError::Denied));
    }

    #[test]
    fn no_rule_allows_the_service_itself_or_what_is_no_destination() {
        let rules = rules(&["go.example.com"], &[], false);
        for own in ["https://go.example.com/a", "http://Go.Example.Com./"] {
            let refused = Err(DestinationError::Target(TargetError::OwnHost));
            assert_eq!(rules.check(own), refused, "{own}");
        }
        assert_eq!(rules.check("https://go.example.com:8443/"), Ok(()));
        let refused = Err(DestinationError::Target(TargetError::Scheme));
        assert_eq!(rules.check("javascript:alert(1)"), refused);
    }

    /// Checks that these are refused as private, and only where the rules say so.
    fn assert_private(urls: &[&str]) {
        let (open, closed) = (rules(&[], &[], false), rules(&[], &[], true));
        for url in urls {
            assert_eq!(open.check(url), Ok(()), "{url}");
            let refused = Err(DestinationError::Private);
            assert_eq!(closed.check(url), refused, "{url}");
        }
    }

    #[test]
    fn private_names_are_refused() {
        assert_private(&[
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://printer.local/",
            "http://metadata.google.internal/",
            "http://demo-app.links.svc/",
            "http://demo-app.links.svc.cluster.local:3000/",
            "http://mylocal/",
            "http://wiki./",
            "http://nas.lan/",
            "http://router.home.arpa/",
            "http://wiki.corp/",
            "http://wiki.intranet/",
        ]);
    }

    #[test]
    fn private_addresses_are_refused_in_every_form() {
        assert_private(&[
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://10.1.2.3/",
            "http://172.16.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://240.0.0.1/",
            "http://192.0.0.8/",
            "http://198.18.0.1/",
            "http://198.19.255.255/",
            "http://[2002:a00:1::1]/",
            "http://[2001::1]/",
            "http://[fec0::1]/",
            "http://[feff::1]/",
            "http://[::]/",
            "http://[::1]/",
            "http://[::127.0.0.1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::a00:1]/",
            "http://[64:ff9b:1::808:808]/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://[ff02::1]/",
        ]);
    }

    #[test]
    fn public_names_and_addresses_are_not_private() {
        let closed = rules(&[], &[], true);
        for public in [
            "https://example.com/",
            "https://localhost.example.com/",
            "https://mylocal.example/",
            "http://192.0.1.1/",
            "http://198.20.0.1/",
            "http://198.17.0.1/",
            "http://[2002:808:808::1]/",
            "http://[2001:4860::1]/",
            "http://8.8.8.8/",
            "http://172.32.0.1/",
            "http://100.128.0.1/",
            "http://[2001:db8::1]/",
            "http://[64:ff9b::808:808]/",
            "http://[::ffff:8.8.8.8]/",
        ] {
            assert_eq!(closed.check(public), Ok(()), "{public}");
        }
    }

    #[test]
    fn an_address_is_public_if_it_leads_nowhere_else() {
        for (addresses, expected) in [
            (
                &[
                    "8.8.8.8",
                    "100.128.0.1",
                    "192.0.1.1",
                    "2001:4860:4860::8888",
                    "2600::1",
                    "::ffff:8.8.8.8",
                    "64:ff9b::808:808",
                ][..],
                true,
            ),
            (
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "10.0.0.1",
                    "100.64.0.1",
                    "127.0.0.1",
                    "169.254.169.254",
                    "172.31.255.255",
                    "192.0.0.170",
                    "192.0.2.1",
                    "192.88.99.1",
                    "192.168.0.1",
                    "198.18.0.1",
                    "198.51.100.1",
                    "203.0.113.1",
                    "224.0.0.1",
                    "255.255.255.255",
                    "::",
                    "::1",
                    "::7f00:1",
                    "::ffff:169.254.169.254",
                    "64:ff9b::a9fe:a9fe",
                    "64:ff9b:1::808:808",
                    "100::1",
                    "2001::1",
                    "2001:20::1",
                    "2001:db8::1",
                    "2002:a00:1::1",
                    "2002:808:808::1",
                    "64:ff9b::c000:201",
                    "3fff::1",
                    "5f00::1",
                    "fc00::1",
                    "fd00:ec2::254",
                    "fe80::1",
                    "fec0::1",
                    "ff02::1",
                ],
                false,
            ),
        ] {
            for address in addresses {
                assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
            }
        }
    }

    #[test]
    fn a_pattern_is_a_host_in_any_spelling_and_nothing_else() {
        for (text, pattern) in [
            ("Example.com.", HostPattern::Exact("example.com".to_owned())),
            (
                "*.Bücher.example",
                HostPattern::Below(".xn--bcher-kva.example".to_owned()),
            ),
            (
                "[2001:DB8::1]",
                HostPattern::Exact("[2001:db8::1]".to_owned()),
            ),
            ("1.2.3.256", HostPattern::Exact("1.2.3.256".to_owned())),
        ] {
            assert_eq!(text.parse::<HostPattern>(), Ok(pattern), "{text}");
        }
        for wrong in [
            "",
            "*",
            "*.",
            "*.*.example",
            "a.*.example",
            "https://example.com",
            "example.com:80",
            "example.com/",
            "a b",
        ] {
            assert!(wrong.parse::<HostPattern>().is_err(), "{wrong:?}");
        }
    }
}
