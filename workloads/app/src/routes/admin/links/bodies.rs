//! The request and response bodies.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::Problem,
    routes::shorten::ShortenResponse,
    store::{
        clicks::ClickTotals,
        management::{LinkRecord, Page},
    },
};

/// A takedown. Unknown fields are ignored, and `null` means absent.
// The parser accepts any value in a field, so that it can report every invalid one.
#[derive(Debug, Deserialize)]
pub struct DisableRequest {
    /// Reason without control characters, for the operators of the service. Clients that follow the link do not see it.
    pub(super) reason: Option<Value>,
    /// True if there are legal reasons; the link answers 451 then.
    pub(super) legal: Option<Value>,
    /// Text without control characters for clients that follow the link; only with `legal`.
    pub(super) notice: Option<Value>,
}

/// The reason for a change. Unknown fields are ignored, and `null` means absent.
#[derive(Debug, Deserialize)]
pub struct ReasonRequest {
    /// Reason without control characters, for the operators of the service.
    pub(super) reason: Option<Value>,
}

/// Links to be created. Unknown fields are ignored.
#[derive(Debug, Deserialize)]
pub struct LinksRequest {
    /// 1 to 100 links. Each is judged by itself: one with invalid fields has a result with status 400.
    pub(super) links: Option<Value>,
}

/// A link with everything that is known of it.
#[derive(Debug, Serialize)]
pub struct LinkDetails {
    #[serde(flatten)]
    link: LinkRecord,
    /// Public URL of the link.
    short_url: String,
    /// `live`, `expired`, `disabled` or `deleted`.
    state: &'static str,
    /// After a change: true if the link was removed from the cache, false if a replica will do that within seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<bool>,
    /// Clicks on the days that are kept. The answer to a change has none, nor has a service that does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clicks: Option<ClickTotals>,
}

/// A page of links.
#[derive(Debug, Serialize)]
pub struct LinkPage {
    /// Links.
    pub(super) links: Vec<LinkDetails>,
    /// The value of `after` for the next page; null on the last one.
    next: Option<String>,
}

/// The results of creating links.
#[derive(Debug, Serialize)]
pub struct LinksResponse {
    /// Results, in the order of the links.
    pub(super) results: Vec<LinkResult>,
}

/// The result of creating one link.
#[derive(Debug, Serialize)]
pub struct LinkResult {
    /// Status that `POST /shorten` answers in this case.
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
            clicks: None,
        }
    }

    pub(super) fn code(&self) -> &str {
        &self.link.code
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
