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

/// How others route requests to a stack: by which entries, and for which hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    pub entries: Vec<Entry>,
    pub hosts: Hosts,
}

/// The part of the cluster that routes requests to stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The controller of an IngressClass.
    Class(String),
    Gateway {
        namespace: String,
        name: String,
        /// One of its listeners; `None` for every one.
        section: Option<String>,
        port: Option<i32>,
    },
}

impl Entry {
    /// Returns the entry in a message.
    pub fn title(&self) -> String {
        match self {
            Self::Class(class) => format!("IngressClass {class}"),
            Self::Gateway {
                namespace, name, ..
            } => format!("Gateway {namespace}/{name}"),
        }
    }
}

/// Another stack that serves hosts in the spec of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConflict {
    /// The other stack, as `namespace/name`.
    pub holder: String,
    /// The hosts that both stacks want; empty for every host.
    pub hosts: Vec<String>,
    /// The entry of both, as [`Entry::title`] names it.
    pub place: String,
    /// What the stack continues to serve, as before the edit of its spec; `None` if it serves nothing.
    pub kept: Option<Exposure>,
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
