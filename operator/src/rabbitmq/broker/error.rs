//! Errors of requests to the management API.

use std::time::Duration;

use http::StatusCode;
use tower::BoxError;

/// An error of a request to the management API.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The connection failed, or it broke before the response was complete.
    #[error("the broker's management API cannot be reached: {0}")]
    Unreachable(#[source] BoxError),
    /// The broker did not answer within the time limit.
    #[error("the broker's management API did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The broker rejects the credentials, or they lack a permission.
    #[error(
        "the broker rejected the credentials, or they lack a permission: compare the Secret with the users of the broker (a \
         managed broker reads the Secret when its pod starts)"
    )]
    Denied,
    /// The broker answered with any other error status.
    #[error("the broker answered {status}: {reason}")]
    Refused {
        status: StatusCode,
        /// Reason that the broker gives.
        reason: String,
    },
    /// The response is longer than the operator reads.
    #[error("the broker's management API answered with more than {0} bytes")]
    TooLong(usize),
    /// The response cannot be parsed as one of the management API.
    #[error("the response is not from RabbitMQ's management API: {0}")]
    Unexpected(#[from] serde_json::Error),
    /// The request cannot be built.
    #[error("cannot build the request to the broker: {0}")]
    Request(#[from] http::Error),
}
