//! The key that marks the identifiers of a stack's jobs.

use super::Credential;

/// The key that marks the identifiers of jobs. The app knows by it which identifiers it gave out.
#[derive(Clone, Debug, PartialEq)]
pub struct JobIds {
    /// The Secret `<stack>-job-ids`.
    pub key: Credential,
    /// Checksum of the key. Every replica has to have the same one, so a change restarts the app.
    pub checksum: String,
}
