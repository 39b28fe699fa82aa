//! The addresses that the whole internet reaches. A test compares them with the rule of the program that delivers webhooks.

use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer};

use crate::plan::objects::pod;

/// The IPv4 addresses that are not public, each the beginning and the length of a prefix: special addresses of the registry
/// of IANA, and multicast.
const PRIVATE_V4: [([u8; 4], u8); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];
/// The IPv6 addresses that are given out. Private ones and those of links are outside.
const UNICAST_V6: &str = "2000::/3";
/// Those of them that are not public: special addresses of the registry of IANA, and 6to4, which contains IPv4 addresses.
const PRIVATE_V6: [&str; 4] = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/// The IPv4 addresses behind a translator (RFC 6052), by which a cluster that has only IPv6 reaches them.
const TRANSLATED: &str = "64:ff9b::/96";

/// Returns the peers at public addresses.
pub(super) fn peers() -> Vec<NetworkPolicyPeer> {
    let private_v4 = PRIVATE_V4.map(|(address, length)| {
        let address = Ipv4Addr::from(address);
        format!("{address}/{length}")
    });
    let translated = PRIVATE_V4.map(|([a, b, c, d], length)| {
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let address = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        format!("{address}/{}", 96 + length)
    });
    vec![
        block("0.0.0.0/0", private_v4.to_vec()),
        block(UNICAST_V6, pod::strings(&PRIVATE_V6)),
        block(TRANSLATED, translated.to_vec()),
    ]
}

fn block(cidr: &str, except: Vec<String>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.to_owned(),
            except: Some(except),
        }),
        ..NetworkPolicyPeer::default()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, ops::RangeInclusive};

    use shortener_app::destination::is_public;

    use super::*;

    /// Returns the first and the last address of a prefix as numbers, and whether it is one of IPv4.
    fn range(cidr: &str) -> (bool, RangeInclusive<u128>) {
        let (address, length) = cidr.split_once('/').unwrap();
        let length: u32 = length.parse().unwrap();
        let (is_v4, first, free) = match address.parse().unwrap() {
            IpAddr::V4(address) => (true, u128::from(u32::from(address)), 32 - length),
            IpAddr::V6(address) => (false, u128::from(address), 128 - length),
        };
        (is_v4, first..=first + ((1 << free) - 1))
    }

    fn admits(peers: &[NetworkPolicyPeer], is_v4: bool, address: u128) -> bool {
        let contains = |cidr: &String| {
            let (of_v4, range) = range(cidr);
            of_v4 == is_v4 && range.contains(&address)
        };
        peers.iter().any(|peer| {
            let block = peer.ip_block.as_ref().unwrap();
            let except = block.except.as_ref().unwrap();
            contains(&block.cidr) && !except.iter().any(contains)
        })
    }

    #[test]
    fn the_policy_and_the_program_that_delivers_agree_at_the_ends_of_every_block() {
        let peers = peers();
        let blocks = peers.iter().map(|peer| peer.ip_block.as_ref().unwrap());
        let cidrs: Vec<&String> = blocks
            .flat_map(|block| block.except.iter().flatten().chain([&block.cidr]))
            .collect();
        assert_eq!(cidrs.len(), 37);
        for cidr in cidrs {
            let (is_v4, range) = range(cidr);
            let (first, last) = range.into_inner();
            let neighbours = [first.checked_sub(1), last.checked_add(1)];
            for number in [first, last]
                .into_iter()
                .chain(neighbours.into_iter().flatten())
            {
                let address = match (is_v4, u32::try_from(number)) {
                    (true, Ok(number)) => IpAddr::V4(number.into()),
                    (true, Err(_)) => continue,
                    (false, _) => IpAddr::V6(number.into()),
                };
                assert_eq!(
                    admits(&peers, is_v4, number),
                    is_public(address),
                    "{cidr}: {address}"
                );
            }
        }
    }
}
