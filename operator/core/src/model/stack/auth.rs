//! The keys of a stack's clients, and the proxy that signs people in.

use std::collections::BTreeSet;

use crate::api::{AuthProxySpec, Protected, RateLimits};

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
    /// The proxy that signs people in, if there is one.
    pub proxy: Option<AuthProxy>,
}

/// A proxy that signs people in.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthProxy {
    pub settings: AuthProxySpec,
    /// True while the Secret with its secret does not exist.
    pub missing: bool,
}
