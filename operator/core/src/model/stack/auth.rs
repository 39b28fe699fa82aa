//! The keys of a stack's clients.

use std::collections::BTreeSet;

use crate::api::{Protected, RateLimits};

/// The keys of clients, with every default resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// The Secret with the keys.
    pub secret: String,
    /// True while the Secret does not exist.
    pub missing: bool,
    /// Groups of requests that need a key.
    pub protect: BTreeSet<Protected>,
    /// Rate limits of each client with a key.
    pub limits: RateLimits,
}
