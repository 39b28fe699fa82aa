//! The end-to-end probe through the gateway that the operator tries.

use std::time::Duration;

use crate::model::failure::StepFailure;

/// Settings of the end-to-end probe, with every default resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndToEnd {
    /// Time between two end-to-end probes.
    pub interval: Duration,
    /// Address to send the requests to, if it is not the stack's own.
    pub probe_url: Option<String>,
    /// Hosts besides the stack's own to which the requests may go; `*.` stands for any subdomain, and `*` for any host.
    pub probe_hosts: Vec<String>,
    /// The key to send, if the spec refers to one, or the failure to read it.
    pub key: Option<Result<ProbeKey, StepFailure>>,
}

/// The key for the end-to-end probe.
#[derive(Clone, PartialEq, Eq)]
pub struct ProbeKey {
    /// Name of the Secret.
    pub secret: String,
    /// Key within the Secret.
    pub entry: String,
    /// The value, if the Secret and its key exist.
    pub value: Option<String>,
    /// True when the label of the Secret admits it, or none is needed.
    pub usable: bool,
}

crate::debug_only!(ProbeKey: secret, entry);

/// One end-to-end probe to try.
#[derive(Clone, PartialEq, Eq)]
pub struct EndToEndTarget {
    /// Address of the gateway: scheme, host and maybe a port.
    pub address: String,
    /// Host of the requests; empty for that of the address.
    pub host: String,
    /// Key to send.
    pub key: Option<String>,
    /// Destination of the link.
    pub destination: String,
    /// True when a job is sent and its result awaited.
    pub jobs: bool,
    /// Time between two end-to-end probes.
    pub interval: Duration,
}

crate::debug_only!(EndToEndTarget: address, host, jobs);
