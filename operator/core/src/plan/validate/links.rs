//! The targets for visitors.

use crate::{api::LinksSpec, plan::error::ValidateError};

/// Checks that no target is the stack itself, where a redirect could lead to the next one without end.
///
/// # Errors
/// A target has the host of the public URL.
pub(super) fn check(links: &LinksSpec, public_url: &str) -> Result<(), ValidateError> {
    let own = host(public_url);
    for (field, target) in links.targets() {
        if let Some(target) = target.filter(|target| host(target).eq_ignore_ascii_case(own)) {
            return Err(ValidateError::TargetIsOwn {
                field,
                target: target.to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns the host of an address in the form that the schema prescribes: with a scheme, without credentials, and not
/// an IPv6 address.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split([':', '/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PUBLIC: &str = "https://go.example.com:8443";

    #[test]
    fn visitors_are_not_sent_in_circles() {
        for field in ["rootTarget", "unknownTarget", "expiredTarget"] {
            for own in [
                "https://go.example.com",
                "http://go.example.com/",
                "https://GO.example.com:8443/none",
                "https://go.example.com?x",
                "https://go.example.com#x",
            ] {
                let links = serde_json::from_value(json!({field: own})).unwrap();
                let error = check(&links, PUBLIC).unwrap_err();
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
    fn other_hosts_are_targets() {
        for other in [
            "https://www.example.com",
            "https://example.com/go.example.com",
            "https://go.example.com.evil.example/",
        ] {
            let links = serde_json::from_value(json!({"unknownTarget": other})).unwrap();
            assert_eq!(check(&links, PUBLIC), Ok(()), "{other}");
        }
        assert_eq!(check(&LinksSpec::default(), PUBLIC), Ok(()));
    }
}
