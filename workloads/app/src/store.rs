//! The durable store of links.

pub mod database;
pub mod migrate;
pub mod postgres;

use jiff::Timestamp;

/// A link as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The short code.
    pub code: String,
    /// The destination, as given.
    pub url: String,
    /// When it was created, in whole microseconds.
    pub created_at: Timestamp,
    /// When it stops redirecting, in whole microseconds.
    pub expires_at: Option<Timestamp>,
}

/// What a code resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// A live link and its destination.
    To(String),
    /// A link that has expired, whether or not it was purged.
    Gone,
}

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is down, read-only, overloaded or out of reach: trying again later may work.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The database refused the question itself, or answered with something that cannot be.
    #[error(transparent)]
    Internal(sqlx::Error),
}
