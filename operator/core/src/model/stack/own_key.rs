//! A key that the operator generates for the app.

use super::Credential;

/// A key of the app in a Secret of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnKey {
    /// The Secret.
    pub key: Credential,
    /// Checksum of the key. Every replica has to have the same one, so a change restarts the app.
    pub checksum: String,
}
