//! Why the database did not answer.

use std::sync::Arc;

/// Why the database did not answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is down, read-only, overloaded or out of reach: trying again later may work.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The database refused the question itself, or answered with something that cannot be.
    #[error(transparent)]
    Internal(Arc<sqlx::Error>),
}

/// Whether the connection broke, as opposed to the question.
pub(super) fn is_connection_error(error: &sqlx::Error) -> bool {
    use sqlx::Error::{Io, PoolClosed, PoolTimedOut, Protocol, Tls, WorkerCrashed};
    matches!(
        error,
        Io(_) | Tls(_) | Protocol(_) | PoolTimedOut | PoolClosed | WorkerCrashed
    )
}
