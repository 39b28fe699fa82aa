//! The hosts of a stack, and a conflict about them.

/// The hosts that a stack serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Those of links, the canonical one first; empty for every host.
    pub links: Vec<String>,
    /// That of the console, if it has one of its own.
    pub console: Option<String>,
}

impl Hosts {
    /// Returns every host by name.
    pub fn named(&self) -> impl Iterator<Item = &String> {
        self.links.iter().chain(&self.console)
    }
}

/// Another stack that serves hosts in the spec of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConflict {
    /// The other stack, as `namespace/name`.
    pub holder: String,
    /// The hosts that both stacks want; empty for every host.
    pub hosts: Vec<String>,
    /// The hosts that the stack continues to serve, as before the edit of its spec; `None` if it serves none.
    pub kept: Option<Hosts>,
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
