//! The settings of destinations.

use clap::{ArgAction, Args};
use url::Url;

use crate::{
    destination::{Destinations, HostPattern},
    target::OwnAddress,
};

/// The destinations that links may have.
#[derive(Clone, Debug, Args)]
pub struct DestinationArgs {
    /// Hosts of the gateway, separated by commas. No link leads to them, nor to the public URL, and a request may choose
    /// one of them for its short URL.
    #[arg(long, env, value_delimiter = ',')]
    pub gateway_hosts: Vec<String>,
    /// Hosts to which links may lead, separated by commas: `example.com`, or `*.example.com` for all names below it. Without
    /// any, links lead everywhere.
    #[arg(long, env, value_delimiter = ',')]
    pub links_allow_hosts: Vec<HostPattern>,
    /// Hosts to which links do not lead, in the same form, also if they are allowed.
    #[arg(long, env, value_delimiter = ',')]
    pub links_deny_hosts: Vec<HostPattern>,
    /// Refuses links to private addresses and names if true.
    #[arg(long, env, default_value_t = false, action = ArgAction::Set)]
    pub links_deny_private_addresses: bool,
}

impl DestinationArgs {
    /// Returns the rules of a service at this URL, with a console on this host.
    pub fn destinations(&self, public_url: &Url, console: Option<&str>) -> Destinations {
        let gateway = self
            .gateway_hosts
            .iter()
            .map(String::as_str)
            .chain(console)
            .map(OwnAddress::of_host);
        Destinations {
            own: [OwnAddress::from(public_url)]
                .into_iter()
                .chain(gateway)
                .collect(),
            allow: self.links_allow_hosts.clone(),
            deny: self.links_deny_hosts.clone(),
            deny_private: self.links_deny_private_addresses,
        }
    }
}
