//! The setting for the addresses of clients in the log and in spans.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;

/// What log lines and spans show of the address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientAddress {
    /// The address.
    Full,
    /// Its network: a /24 of IPv4, a /48 of IPv6.
    Network,
    /// Nothing.
    None,
}

impl ClientAddress {
    /// Returns what is shown of an address. The rest of a network's address is zero.
    pub fn shown(self, address: IpAddr) -> Option<IpAddr> {
        match (self, address) {
            (Self::Full, address) => Some(address),
            (Self::Network, IpAddr::V4(address)) => {
                let network = address.to_bits() & (u32::MAX << 8);
                Some(Ipv4Addr::from_bits(network).into())
            }
            (Self::Network, IpAddr::V6(address)) => {
                let network = address.to_bits() & (u128::MAX << 80);
                Some(Ipv6Addr::from_bits(network).into())
            }
            (Self::None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_whole_by_its_network_or_not_at_all() {
        for (address, network) in [
            ("203.0.113.9", "203.0.113.0"),
            ("2001:db8:1:2::7", "2001:db8:1::"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(ClientAddress::Full.shown(address), Some(address));
            let network = network.parse().ok();
            assert_eq!(ClientAddress::Network.shown(address), network);
            assert_eq!(ClientAddress::None.shown(address), None);
        }
    }
}
