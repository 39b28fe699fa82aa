//! A link with everything that is known of it.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Time;
use serde::{Deserialize, Serialize};

use crate::store::Takedown;

/// The columns of a `LinkRow`, for a statement that selects or returns it.
macro_rules! columns {
    () => {
        "code, coalesce(url, disabled_url), host, created_by, created_at, expires_at, \
        coalesce(expires_at <= now(), false), disabled_at, disabled_as, disabled_by, reason, notice"
    };
}
pub(super) use columns;

/// A row of the table.
pub(super) type LinkRow = (
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Time,
    Option<Time>,
    bool,
    Option<Time>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// A link with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkRecord {
    /// Short code.
    pub code: String,
    /// Destination, followed or not; null once it was removed.
    pub url: Option<String>,
    /// Host of the destination: ASCII, in lower case; null once the destination was removed.
    pub host: Option<String>,
    /// Client that created the link; null if it had no key.
    pub created_by: Option<String>,
    /// Creation time of the link (RFC 3339).
    pub created_at: Timestamp,
    /// Expiry time of the link (RFC 3339), if it expires.
    pub expires_at: Option<Timestamp>,
    /// True if that time is over.
    #[serde(skip)]
    pub is_expired: bool,
    /// Takedown, if the link is disabled or deleted.
    #[serde(rename = "disabled")]
    pub takedown: Option<LinkTakedown>,
}

/// The takedown of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTakedown {
    /// Time of the takedown (RFC 3339).
    pub at: Timestamp,
    /// Client that did it.
    pub by: Option<String>,
    /// `gone`, `legal` or `deleted`.
    #[serde(rename = "as")]
    pub how: How,
    /// Reason, for the operators of the service.
    pub reason: Option<String>,
    /// Text for clients that follow the link.
    pub notice: Option<String>,
}

/// The kinds of takedowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Disabled.
    Gone,
    /// Disabled for legal reasons.
    Legal,
    /// Deleted, without a way back.
    Deleted,
}

impl How {
    const ALL: [Self; 3] = [Self::Gone, Self::Legal, Self::Deleted];

    /// Returns the word for it in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Legal => "legal",
            Self::Deleted => "deleted",
        }
    }
}

/// The states of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It redirects.
    Live,
    /// Its time is over.
    Expired,
    /// It was disabled, expired or not.
    Disabled,
    /// It was deleted.
    Deleted,
}

impl LinkState {
    pub const ALL: [Self; 4] = [Self::Live, Self::Expired, Self::Disabled, Self::Deleted];

    /// Returns the word for it in queries and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired => "expired",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }
}

impl LinkRecord {
    /// Returns the state of the link.
    #[must_use]
    pub fn state(&self) -> LinkState {
        match &self.takedown {
            Some(takedown) if takedown.how == How::Deleted => LinkState::Deleted,
            Some(_) => LinkState::Disabled,
            None if self.is_expired => LinkState::Expired,
            None => LinkState::Live,
        }
    }

    /// Returns the takedown as clients that follow the link are told; `None` if the link is not down.
    #[must_use]
    pub fn told(&self) -> Option<Takedown> {
        let record = self.takedown.as_ref()?;
        Some(takedown(record.how.as_str(), record.notice.clone()))
    }
}

/// Returns the takedown as clients that follow the link are told.
pub(in crate::store) fn takedown(disabled_as: &str, notice: Option<String>) -> Takedown {
    if disabled_as == How::Legal.as_str() {
        Takedown::Legal { notice }
    } else {
        Takedown::Disabled
    }
}

impl TryFrom<LinkRow> for LinkRecord {
    type Error = sqlx::Error;

    fn try_from(row: LinkRow) -> Result<Self, sqlx::Error> {
        let (code, url, host, created_by, created_at, expires_at, is_expired, ..) = row;
        let (.., disabled_at, disabled_as, by, reason, notice) = row;
        let takedown = match disabled_at {
            Some(at) => Some(LinkTakedown {
                at: at.to_jiff(),
                by,
                how: how(disabled_as.as_deref())?,
                reason,
                notice,
            }),
            None => None,
        };
        Ok(Self {
            code,
            url,
            host,
            created_by,
            created_at: created_at.to_jiff(),
            expires_at: expires_at.map(Time::to_jiff),
            is_expired,
            takedown,
        })
    }
}

pub(super) fn how(word: Option<&str>) -> Result<How, sqlx::Error> {
    let known = How::ALL.into_iter().find(|how| Some(how.as_str()) == word);
    known.ok_or_else(|| sqlx::Error::Decode("a takedown of an unknown kind".into()))
}
