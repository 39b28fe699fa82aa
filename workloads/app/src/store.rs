//! Links and jobs: durable in the database; of links there are temporary copies in the cache.

pub mod cache;
pub mod cached;
pub mod flights;
pub mod jobs;
pub mod migrate;
pub mod postgres;

use axum::body::Bytes;
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

/// What the database says about a code that was given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A live link.
    Live {
        /// The destination, as given.
        url: String,
        /// When it stops redirecting.
        expires_at: Option<Timestamp>,
    },
    /// A link that has expired, whether or not it was purged.
    Expired,
}

/// What a code resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// A live link and its destination.
    To(Bytes),
    /// A link that has expired, whether or not it was purged.
    Gone,
}
