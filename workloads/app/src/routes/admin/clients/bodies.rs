//! The request and response bodies.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A transfer of links. Unknown fields are ignored, and `null` means absent.
#[derive(Debug, Deserialize)]
pub struct TransferRequest {
    /// Client whose links are transferred, as their `created_by` has it.
    pub(super) from: Option<Value>,
    /// Client that gets them.
    pub(super) to: Option<Value>,
    /// Codes of 1 to 1000 links; all links of the client if absent.
    pub(super) codes: Option<Value>,
    /// Reason without control characters, for the operators of the service.
    pub(super) reason: Option<Value>,
}

/// The result of a transfer.
#[derive(Debug, Serialize)]
pub struct TransferResponse {
    /// Number of links that this request transferred.
    pub(super) transferred: u64,
    /// True if the client has more links to transfer: repeat the request.
    pub(super) remaining: bool,
}

/// An erasure of the name of a client. Unknown fields are ignored, and `null` means absent.
#[derive(Debug, Deserialize)]
pub struct EraseRequest {
    /// Client without a key.
    pub(super) client: Option<Value>,
    /// Reason without control characters, for the operators of the service.
    pub(super) reason: Option<Value>,
}

/// The result of an erasure.
#[derive(Debug, Serialize)]
pub struct EraseResponse {
    /// Number of places in which this request replaced the name.
    pub(super) erased: u64,
    /// True if the name may be left elsewhere: repeat the request.
    pub(super) remaining: bool,
}
