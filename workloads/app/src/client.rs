//! The address of the client behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};

/// The header to which each proxy appends the address of its peer.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the address of the client. With `hops` trusted proxies it is the `hops`-th entry from the right, because
/// each of them appended one entry. Entries further left were written by the client and are never trusted.
///
/// If the list is too short or an entry is malformed, the result is the last valid address before that, starting
/// with `peer`.
pub fn address(peer: IpAddr, headers: &HeaderMap, hops: usize) -> IpAddr {
    let mut client = peer;
    let entries = headers
        .get_all(X_FORWARDED_FOR)
        .iter()
        .rev()
        .flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    for entry in entries.take(hops) {
        match parse(entry) {
            Some(address) => client = address,
            None => break,
        }
    }
    client.to_canonical()
}

/// Parses an address, with or without a port.
fn parse(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let bare = || {
        text.trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .ok()
    };
    text.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(bare)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER: &str = "10.0.0.1";

    fn client(hops: usize, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        address(PEER.parse().unwrap(), &headers, hops).to_string()
    }

    #[test]
    fn only_entries_written_by_trusted_hops_count() {
        assert_eq!(client(1, &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(client(1, &["6.6.6.6, 203.0.113.9"]), "203.0.113.9");
        assert_eq!(
            client(2, &["6.6.6.6, 203.0.113.9, 10.1.1.1"]),
            "203.0.113.9"
        );
        assert_eq!(client(0, &["6.6.6.6"]), PEER);
    }

    #[test]
    fn several_header_lines_are_one_list() {
        assert_eq!(
            client(2, &["6.6.6.6", "203.0.113.9", "10.1.1.1"]),
            "203.0.113.9"
        );
    }

    #[test]
    fn a_list_that_is_too_short_or_malformed_falls_back_to_what_is_vouched_for() {
        assert_eq!(client(1, &[]), PEER);
        assert_eq!(client(1, &["unknown"]), PEER);
        assert_eq!(client(1, &["203.0.113.9,"]), PEER);
        assert_eq!(client(3, &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(client(2, &["evil, 10.1.1.1"]), "10.1.1.1");
    }

    #[test]
    fn ports_brackets_and_mapped_addresses_are_understood() {
        assert_eq!(client(1, &["203.0.113.9:1234"]), "203.0.113.9");
        assert_eq!(client(1, &["[2001:db8::1]:1234"]), "2001:db8::1");
        assert_eq!(client(1, &["[2001:db8::1]"]), "2001:db8::1");
        assert_eq!(client(1, &["::ffff:203.0.113.9"]), "203.0.113.9");
    }

    proptest! {
        #[test]
        fn a_forged_prefix_never_changes_the_client(forged in "[ -~]{0,60}") {
            prop_assert_eq!(client(1, &[&format!("{forged},203.0.113.9")]), "203.0.113.9");
            prop_assert_eq!(client(1, &[&forged, "203.0.113.9"]), "203.0.113.9");
        }
    }
}
