//! A conflict about the hosts of a stack.

/// Another stack that serves hosts in the spec of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConflict {
    /// The other stack, as `namespace/name`.
    pub holder: String,
    /// The hosts that both stacks want; empty for every host.
    pub hosts: Vec<String>,
    /// The hosts that the stack continues to serve, as before the edit of its spec; `None` if it serves none.
    pub kept: Option<Vec<String>>,
}

impl HostConflict {
    /// Returns hosts in a message.
    pub fn title(hosts: &[String]) -> String {
        if hosts.is_empty() {
            "every host".to_owned()
        } else {
            hosts.join(", ")
        }
    }
}
