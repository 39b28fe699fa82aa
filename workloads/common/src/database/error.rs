//! The errors of the database.

use std::{sync::Arc, time::Duration};

use crate::{
    backends::{Fault, Unusable},
    tls,
};

/// The state (SQLSTATE) of a violation of the protocol.
const PROTOCOL_VIOLATION: &str = "08P01";

/// An error of the database.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is down, read-only, overloaded or unreachable. A later attempt may succeed.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The database answers, but not within the time of a statement. The next attempt takes as long, unless the load is
    /// lower then.
    #[error("database too slow: {0}")]
    TimedOut(String),
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

/// Returns true if the connection has ended: its server ended, or an administrator terminated the session.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(last) => {
            // Shutdown of a session and of the server, and connections that failed.
            let code = last.code().unwrap_or_default();
            ["57P01", "57P02", "08"]
                .iter()
                .any(|class| code.starts_with(class))
        }
        _ => false,
    }
}

/// Returns true if a pooler between this program and the server refused the settings of the connection. Another attempt
/// does not help.
pub fn is_refused_by_pooler(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refusal| {
        // The words are PgBouncer's. A server names settings that it does not know by other states.
        refusal.code().as_deref() == Some(PROTOCOL_VIOLATION)
            && refusal.message().contains("startup parameter")
    })
}

/// Returns the reason why the database cannot be used after a connection attempt failed.
pub fn unusable(error: &sqlx::Error) -> Unusable {
    Unusable {
        reason: explained(error),
        fault: fault(error),
    }
}

/// Returns the reason why the database cannot be used after a connection attempt took too long.
pub fn no_answer(within: Duration) -> Unusable {
    Unusable {
        reason: format!("no answer within {} s", within.as_secs()),
        fault: Some(Fault::Unreachable),
    }
}

/// Returns the text of an error of a connection attempt, with the reason or the remedy where it is known.
fn explained(error: &sqlx::Error) -> String {
    if is_refused_by_pooler(error) {
        return format!(
            "a pooler before the database refuses the settings of the connection: set database.external.pooler to \
             Transaction ({error})"
        );
    }
    tls::explained(error)
}

/// Returns the fault behind a failed connection attempt; `None` if the server answers, and with something else than a
/// refusal.
fn fault(error: &sqlx::Error) -> Option<Fault> {
    match error {
        sqlx::Error::Database(refusal) => {
            let code = refusal.code().unwrap_or_default();
            match &*code {
                "3D000" => Some(Fault::NotFound),
                // The right to connect is missing.
                "42501" => Some(Fault::Denied),
                code => code.starts_with("28").then_some(Fault::Denied),
            }
        }
        sqlx::Error::Tls(_) => Some(tls::fault(error).unwrap_or(Fault::TlsRefused)),
        error => is_connection_error(error).then(|| Fault::of_connection(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_server_without_tls_is_told_apart_from_one_that_is_away() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (error, expected) in [
            (sqlx::Error::Io(refused), Some(Fault::Unreachable)),
            (
                sqlx::Error::Tls("server does not support TLS".into()),
                Some(Fault::TlsRefused),
            ),
            (sqlx::Error::RowNotFound, None),
        ] {
            assert_eq!(unusable(&error).fault, expected, "{error}");
        }
        let silent = no_answer(Duration::from_secs(5));
        assert_eq!(silent.to_string(), "no answer within 5 s");
        assert_eq!(silent.fault, Some(Fault::Unreachable));
    }
}
