//! The errors of the database.

use std::sync::Arc;

/// An error of the database.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is down, read-only, overloaded or unreachable. A later attempt may succeed.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// Every connection to the database is in use, and too many operations wait for one. A later attempt may succeed.
    #[error("the connections to the database are busy")]
    Busy,
    /// The database rejected the query, or returned data that the schema rules out.
    #[error(transparent)]
    Internal(Arc<sqlx::Error>),
}

/// Returns true if the error is about the connection and not about the query.
pub(super) fn is_connection_error(error: &sqlx::Error) -> bool {
    use sqlx::Error::{Io, PoolClosed, PoolTimedOut, Protocol, Tls, WorkerCrashed};
    matches!(
        error,
        Io(_) | Tls(_) | Protocol(_) | PoolTimedOut | PoolClosed | WorkerCrashed
    )
}
