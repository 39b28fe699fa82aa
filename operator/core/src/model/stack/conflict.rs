//! A conflict about the host of a stack.

/// Another stack that holds the host in the spec of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConflict {
    /// The other stack, as `namespace/name`.
    pub holder: String,
    /// The host in the spec; empty for every host.
    pub host: String,
    /// The host that the stack goes on serving, as before the edit of its spec; `None` if it serves none.
    pub kept: Option<String>,
}
