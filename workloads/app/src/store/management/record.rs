//! A link with everything that is known of it.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Time;
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Row, postgres::PgRow};

use super::ownership::Owner;
use crate::store::{Link, Takedown, labels::Labels};

/// The columns of a [`LinkRecord`], for a statement that selects from `links`. The tags have no order: the planner, which must
/// not sort in a list, would read them all in that of their index.
macro_rules! columns {
    () => {
        "links.code, coalesce(links.url, links.disabled_url) AS url, links.is_template, links.host, links.created_by, links.created_at, \
        links.expires_at, coalesce(links.expires_at <= now(), false) AS is_expired, links.disabled_at, links.disabled_as, \
        links.disabled_by, links.reason, links.notice, \
        (SELECT title FROM link_labels WHERE link_labels.code = links.code) AS title, \
        (SELECT note FROM link_labels WHERE link_labels.code = links.code) AS note, \
        ARRAY(SELECT tag FROM link_tags WHERE link_tags.code = links.code) AS tags, \
        (SELECT ARRAY[uid, namespace, name] FROM link_owners WHERE link_owners.code = links.code) AS owner"
    };
}
pub(super) use columns;

/// A link with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkRecord {
    /// Short code.
    pub code: String,
    /// Destination, followed or not; null once it was removed.
    pub url: Option<String>,
    /// True if the destination is a template, which the further path of a request fills.
    pub template: bool,
    /// Host of the destination: ASCII, in lower case; null once the destination was removed.
    pub host: Option<String>,
    /// Client that created the link, or `shortlink/` and the namespace and the name of a ShortLink; null if the client had no
    /// key.
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
    #[serde(flatten)]
    pub labels: Labels,
    /// ShortLink to which the link belongs; null if it belongs to none.
    pub owner: Option<Owner>,
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

shortener_common::words! {
    /// The kinds of takedowns, with their words in the table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum How {
        /// Disabled.
        Gone = "gone",
        /// Disabled for legal reasons.
        Legal = "legal",
        /// Deleted, without a way back.
        Deleted = "deleted",
    }
}

shortener_common::words! {
    /// The states of a link, with their words in queries and in answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LinkState {
        /// It redirects.
        Live = "live",
        /// Its time is over.
        Expired = "expired",
        /// It was disabled, expired or not.
        Disabled = "disabled",
        /// It was deleted.
        Deleted = "deleted",
    }
}

impl LinkRecord {
    /// Returns the state of the link.
    pub fn state(&self) -> LinkState {
        match &self.takedown {
            Some(takedown) if takedown.how == How::Deleted => LinkState::Deleted,
            Some(_) => LinkState::Disabled,
            None if self.is_expired => LinkState::Expired,
            None => LinkState::Live,
        }
    }

    /// Returns the link as its creator gets it.
    pub fn link(&self) -> Link {
        Link {
            code: self.code.clone(),
            url: self.url.clone().unwrap_or_default(),
            template: self.template,
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }

    /// Returns the takedown as clients that follow the link are told; `None` if the link is not down.
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

impl LinkTakedown {
    /// Returns the takedown in a row; `None` if the link is not down.
    pub(super) fn of(row: &PgRow) -> Result<Option<Self>, sqlx::Error> {
        let Some(at) = row.try_get::<Option<Time>, _>("disabled_at")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            at: at.to_jiff(),
            by: row.try_get("disabled_by")?,
            how: how(row.try_get("disabled_as")?)?,
            reason: row.try_get("reason")?,
            notice: row.try_get("notice")?,
        }))
    }
}

impl FromRow<'_, PgRow> for LinkRecord {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let mut tags: Vec<String> = row.try_get("tags")?;
        tags.sort();
        Ok(Self {
            code: row.try_get("code")?,
            url: row.try_get("url")?,
            template: row.try_get("is_template")?,
            host: row.try_get("host")?,
            created_by: row.try_get("created_by")?,
            created_at: row.try_get::<Time, _>("created_at")?.to_jiff(),
            expires_at: row
                .try_get::<Option<Time>, _>("expires_at")?
                .map(Time::to_jiff),
            is_expired: row.try_get("is_expired")?,
            takedown: LinkTakedown::of(row)?,
            labels: Labels {
                title: row.try_get("title")?,
                tags,
                note: row.try_get("note")?,
            },
            owner: row.try_get::<Option<_>, _>("owner")?.map(Owner::of_columns),
        })
    }
}

fn how(word: Option<&str>) -> Result<How, sqlx::Error> {
    let known = word.and_then(How::of_word);
    known.ok_or_else(|| sqlx::Error::Decode("a takedown of an unknown kind".into()))
}
