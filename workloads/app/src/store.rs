//! The storage of links and jobs: the database holds them durably, and the cache holds temporary copies of links.

pub mod audit;
pub mod cache;
pub mod cached;
pub mod clicks;
pub mod jobs;
pub mod labels;
pub mod management;
pub mod migrate;
pub mod pooler;
pub mod postgres;
pub mod purge_sweeper;
pub mod replica;
pub mod sample;
pub mod webhooks;

use axum::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;

use crate::location;

/// The maximum length of the reason for a change and of the notice of a takedown, in characters.
pub const MAX_TEXT: usize = 500;

/// A link as its creator gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Short code.
    pub code: String,
    /// Destination, as given.
    pub url: String,
    /// True if the destination is a template, which the further path of a request fills; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
    /// Creation time of the link (RFC 3339).
    // In whole microseconds, like the next one.
    pub created_at: Timestamp,
    /// Expiry time of the link (RFC 3339), if it expires.
    pub expires_at: Option<Timestamp>,
}

/// The record of a code in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A link that has not expired.
    Live {
        /// The destination as a URI, see [`crate::location`].
        url: String,
        expires_at: Option<Timestamp>,
    },
    /// A link with arguments that has not expired.
    Template {
        /// The template as given, see [`crate::template`].
        text: String,
        expires_at: Option<Timestamp>,
    },
    /// A link that has expired, purged or not.
    Expired,
    /// A link that was taken down, expired or not.
    Down(Takedown),
}

impl Stored {
    /// Returns a link that has not expired, with its destination as given.
    pub fn live(url: &str, is_template: bool, expires_at: Option<Timestamp>) -> Self {
        match is_template {
            true => Self::Template {
                text: url.to_owned(),
                expires_at,
            },
            false => Self::Live {
                url: location::ascii(url).into_owned(),
                expires_at,
            },
        }
    }
}

/// The takedown of a link, as clients that follow the link are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takedown {
    /// It was disabled or deleted.
    Disabled,
    /// It was disabled for legal reasons.
    Legal {
        /// A text about the reasons.
        notice: Option<String>,
    },
}

/// The result of resolving a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The destination of a link that has not expired, as a URI.
    To(Bytes),
    /// The template of a link with arguments that has not expired.
    Template(String),
    /// The code was never assigned, or at least not a moment ago.
    Nothing,
    /// A link that has expired, purged or not.
    Gone,
    /// A link that was taken down.
    Down(Takedown),
}
