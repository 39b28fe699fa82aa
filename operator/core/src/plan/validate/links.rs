//! The targets for visitors.

use crate::{api::LinksSpec, plan::error::ValidateError};

/// Checks that no target is the stack itself, where a redirect could lead to the next one without end.
///
/// # Errors
/// A target is at the public URL, or at one of the gateway's hosts.
pub(super) fn check(
    links: &LinksSpec,
    public_url: &str,
    gateway_hosts: &[String],
) -> Result<(), ValidateError> {
    let hosts = gateway_hosts.iter().map(|host| (host.as_str(), ""));
    let own: Vec<_> = hosts.chain([place(public_url)]).collect();
    for (field, target) in links.targets() {
        let Some(target) = target else { continue };
        let (host, port) = place(target);
        let is_own = |(own_host, own_port): &(&str, &str)| {
            host.eq_ignore_ascii_case(own_host) && port == *own_port
        };
        if own.iter().any(is_own) {
            return Err(ValidateError::TargetIsOwn {
                field,
                target: target.to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns the host and the port of an address in the form that the schema prescribes: with a scheme, without
/// credentials, and not an IPv6 address. Ports 80 and 443 of a host count as one, because one usually redirects to the
/// other; both are empty.
fn place(address: &str) -> (&str, &str) {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    match port {
        "80" | "443" => (host, ""),
        port => (host, port),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PUBLIC: &str = "https://go.example.com:8443";

    fn gateway() -> [String; 2] {
        ["links.example.com", "links.internal"].map(str::to_owned)
    }

    #[test]
    fn visitors_are_not_sent_in_circles() {
        for field in ["rootTarget", "unknownTarget", "expiredTarget"] {
            for own in [
                "https://go.example.com:8443",
                "http://go.example.com:8443/",
                "https://GO.example.com:8443?x",
                "https://go.example.com:8443#x",
                "https://links.internal",
                "http://links.internal:80/x",
                "http://LINKS.internal:443?x",
            ] {
                let links = serde_json::from_value(json!({field: own})).unwrap();
                let error = check(&links, PUBLIC, &gateway()).unwrap_err();
                assert_eq!(error.reason(), "TargetIsOwn");
                let text = error.to_string();
                assert!(
                    text.starts_with(&format!("links.{field}: {own} ")),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn other_addresses_are_targets() {
        for other in [
            "https://www.example.com",
            "https://go.example.com:8444/",
            "https://go.example.com",
            "https://example.com/go.example.com",
            "https://go.example.com.evil.example/",
        ] {
            let links = serde_json::from_value(json!({"unknownTarget": other})).unwrap();
            assert_eq!(check(&links, PUBLIC, &gateway()), Ok(()), "{other}");
            assert_eq!(check(&links, PUBLIC, &[]), Ok(()), "{other}");
        }
        assert_eq!(check(&LinksSpec::default(), PUBLIC, &gateway()), Ok(()));
    }
}
