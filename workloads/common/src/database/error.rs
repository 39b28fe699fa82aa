//! The errors of the database.

use std::sync::Arc;

use crate::tls;

/// The state (SQLSTATE) of a violation of the protocol.
const PROTOCOL_VIOLATION: &str = "08P01";

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

/// Returns true if a pooler between this program and the server refused the settings of the connection. Another attempt
/// does not help.
#[must_use]
pub fn is_refused_by_pooler(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refusal| {
        // The words are PgBouncer's. A server names settings that it does not know by other states.
        refusal.code().as_deref() == Some(PROTOCOL_VIOLATION)
            && refusal.message().contains("startup parameter")
    })
}

/// Returns the text of an error of a connection attempt, with the reason or the remedy where it is known.
#[must_use]
pub fn explained(error: &sqlx::Error) -> String {
    if is_refused_by_pooler(error) {
        return format!(
            "a pooler before the database refuses the settings of the connection: set database.external.pooler to \
             Transaction ({error})"
        );
    }
    tls::explained(error)
}
