//! What can go wrong between a question and its answer.

use std::time::Duration;

use http::StatusCode;
use tower::BoxError;

/// Why the broker did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// No connection, or no answer.
    #[error("the broker's management API cannot be reached: {0}")]
    Unreachable(#[source] BoxError),
    /// The time is over.
    #[error("the broker's management API did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The credentials are not the broker's, or lack a right.
    #[error(
        "the broker refuses the credentials: has the Secret changed while the broker could not restart?"
    )]
    Denied,
    /// No such queue, exchange or policy.
    #[error("the broker has no {0}")]
    Missing(String),
    /// The message was not taken over by any queue.
    #[error("the broker took no responsibility for the message: queue {0} is missing or full")]
    NotTaken(String),
    /// Any other refusal.
    #[error("the broker refuses: {status}: {reason}")]
    Refused {
        /// HTTP status.
        status: StatusCode,
        /// The broker's words.
        reason: String,
    },
    /// Not what the management API answers.
    #[error("the answer is not one of RabbitMQ's management API: {0}")]
    Unexpected(#[from] serde_json::Error),
    /// Something that no request can be made of.
    #[error("cannot ask the broker: {0}")]
    Request(#[from] http::Error),
}
