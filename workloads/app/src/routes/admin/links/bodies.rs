//! The request and response bodies, as shown in the OpenAPI document.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    error::Problem,
    routes::shorten::{ShortenRequest, ShortenResponse},
    store::management::{LinkRecord, Page},
};

/// A takedown. Unknown fields are ignored, and `null` means absent.
// The parser accepts any value in a field, so that it can report every invalid one.
#[derive(Debug, Deserialize, ToSchema)]
pub struct DisableRequest {
    /// Reason without control characters, for the operators of the service. Clients that follow the link do not see it.
    #[schema(value_type = String, min_length = 1, max_length = 500, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$", example = "phishing")]
    pub(super) reason: Option<Value>,
    /// True if there are legal reasons; the link answers 451 then.
    #[schema(value_type = Option<bool>)]
    pub(super) legal: Option<Value>,
    /// Text without control characters for clients that follow the link; only with `legal`.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 500, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    pub(super) notice: Option<Value>,
}

/// A new expiry: one of the two fields. Unknown fields are ignored, but `url` is refused.
// Only for the OpenAPI document: the parser has to tell `null` from an absent field.
#[derive(Debug, ToSchema)]
pub struct ExpiryRequest {
    /// Seconds until the link expires, from now.
    #[schema(minimum = 60, maximum = 157_680_000)]
    pub ttl_seconds: Option<u64>,
    /// Expiry time of the link (RFC 3339), within the same bounds; `null` if it shall not expire.
    #[schema(format = DateTime, min_length = 20)]
    pub expires_at: Option<String>,
}

/// Links to be created.
// Only for the OpenAPI document: the parser reports the faults of each link in its result.
#[derive(Debug, ToSchema)]
pub struct LinksRequest {
    /// Links. Each is judged by itself: one with invalid fields has a result with status 400.
    #[schema(min_items = 1, max_items = 100)]
    pub links: Vec<ShortenRequest>,
}

/// A link with everything that is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct LinkDetails {
    #[serde(flatten)]
    link: LinkRecord,
    /// Public URL of the link.
    #[schema(example = "http://localhost:8080/k7Qm2xB")]
    short_url: String,
    /// `live`, `expired`, `disabled` or `deleted`.
    #[schema(example = "live")]
    state: &'static str,
    /// After a change: true if the link was removed from the cache, false if a replica will do that within seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<bool>,
}

/// A page of links.
#[derive(Debug, Serialize, ToSchema)]
pub struct LinkPage {
    /// Links.
    links: Vec<LinkDetails>,
    /// The value of `after` for the next page; null on the last one.
    next: Option<String>,
}

/// The results of creating links.
#[derive(Debug, Serialize, ToSchema)]
pub struct LinksResponse {
    /// Results, in the order of the links.
    pub(super) results: Vec<LinkResult>,
}

/// The result of creating one link.
#[derive(Debug, Serialize, ToSchema)]
pub struct LinkResult {
    /// Status that `POST /shorten` answers in this case.
    #[schema(example = 201)]
    pub(super) status: u16,
    /// Link that was created or reused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<ShortenResponse>,
    /// Problem, if there is no link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<Problem>,
}

impl LinkDetails {
    /// Returns a link at a service with this URL. After a change, `purged` is the result of removing it from the cache.
    pub(super) fn new(link: LinkRecord, public_base: &str, purged: Option<bool>) -> Self {
        Self {
            short_url: format!("{public_base}/{}", link.code),
            state: link.state().as_str(),
            link,
            purged,
        }
    }
}

impl LinkPage {
    pub(super) fn new(page: Page, public_base: &str) -> Self {
        let links = page.links.into_iter();
        Self {
            links: links
                .map(|link| LinkDetails::new(link, public_base, None))
                .collect(),
            next: page.next.map(|next| next.to_string()),
        }
    }
}
