//! A link with everything that a stack keeps of it, as one line of an export or an import.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::record::LinkTakedown;
use crate::store::clicks::ClicksOfDay;

/// A link with everything that a stack keeps of it. Only `code` is required, and unknown fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortableLink {
    /// Short code.
    pub code: String,
    /// Destination, followed or not; null once it was removed.
    pub url: Option<String>,
    /// True if the destination is a template, which the further path of a request fills.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub template: bool,
    /// Host of a destination that was removed; otherwise that of `url`.
    pub host: Option<String>,
    /// Client that created the link; null if it had no key.
    pub created_by: Option<String>,
    /// Creation time of the link (RFC 3339); that of the import if null.
    pub created_at: Option<Timestamp>,
    /// Expiry time of the link (RFC 3339), if it expires; it may be over.
    pub expires_at: Option<Timestamp>,
    /// Takedown, if the link is disabled or deleted.
    pub disabled: Option<LinkTakedown>,
    /// Title.
    pub title: Option<String>,
    /// Tags.
    #[serde(deserialize_with = "or_default")]
    pub tags: Vec<String>,
    /// Note.
    pub note: Option<String>,
    /// Clicks by day, the earliest first.
    // An export writes them itself, because they are too many to be kept.
    #[serde(deserialize_with = "or_default", skip_serializing)]
    pub clicks: Vec<ClicksOfDay>,
}

/// Reads null as the default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
