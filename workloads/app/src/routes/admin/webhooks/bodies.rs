//! The request and response bodies.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::store::webhooks::deliveries::ReceiverState;

/// A choice of deliveries to retry. Unknown fields are ignored, and `null` means absent.
#[derive(Debug, Deserialize)]
pub struct RetryRequest {
    /// Name of the receiver.
    pub(super) receiver: Option<Value>,
    /// Reason without control characters, for the operators of the service.
    pub(super) reason: Option<Value>,
}

/// The receivers.
#[derive(Debug, Serialize)]
pub struct ReceiverList {
    /// Receivers in the order of their names.
    pub(super) receivers: Vec<ReceiverState>,
}

/// The result of a retry.
#[derive(Debug, Serialize)]
pub struct RetryResponse {
    /// Number of deliveries that are due now.
    pub(super) retried: usize,
    /// True if there may be more: repeat the request.
    pub(super) remaining: bool,
}
