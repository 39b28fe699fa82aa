//! The storage of links and jobs: the database holds them durably, and the cache holds temporary copies of links.

pub mod cache;
pub mod cached;
pub mod coalescer;
pub mod jobs;
pub mod migrate;
pub mod postgres;
pub mod schedules;

use axum::body::Bytes;
use jiff::Timestamp;

/// A link as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The short code.
    pub code: String,
    /// The destination, as given.
    pub url: String,
    /// The creation time, in whole microseconds.
    pub created_at: Timestamp,
    /// The expiry time, in whole microseconds.
    pub expires_at: Option<Timestamp>,
}

/// The record of a code in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A link that has not expired.
    Live {
        /// The destination as a URI, see [`crate::location`].
        url: String,
        /// The expiry time.
        expires_at: Option<Timestamp>,
    },
    /// A link that has expired, purged or not.
    Expired,
}

/// The result of resolving a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The destination of a link that has not expired, as a URI.
    To(Bytes),
    /// A link that has expired, purged or not.
    Gone,
}
