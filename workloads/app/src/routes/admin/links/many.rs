//! Creation of many links in one request, one after the other.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::bodies::LinkResult;
use crate::{
    destination::Destinations,
    error::Error,
    routes::shorten::{self, ShortenResponse},
    state::AppState,
    store::postgres::NewLink,
};

/// The maximum size of a request in bytes, as at the gateway.
pub(super) const MAX_BODY: usize = 128 * 1024;
/// The time limit of one request. It leaves time for the response within that of every request.
const LIMIT: Duration = Duration::from_secs(5);
/// The path in the problems of links, which have none of their own.
const INSTANCE: &str = "/api/admin/links";

/// Parses the links of this client.
pub(super) fn read(
    links: Vec<Value>,
    destinations: &Destinations,
    by: &str,
) -> Vec<Result<NewLink, Error>> {
    let read_one = |link| {
        let Value::Object(link) = link else {
            return Err(Error::invalid("links", "must contain objects only"));
        };
        let mut link = shorten::parse(link, destinations, Timestamp::now())?;
        link.created_by = Some(by.to_owned());
        Ok(link)
    };
    links.into_iter().map(read_one).collect()
}

/// Creates the links. They take one connection to the database together.
pub(super) async fn create(
    state: &AppState,
    links: Vec<Result<NewLink, Error>>,
) -> Vec<LinkResult> {
    let end = Instant::now() + LIMIT;
    let mut results = Vec::with_capacity(links.len());
    for link in links {
        let created = match Instant::now() < end {
            true => timeout_at(end, create_one(state, link)).await,
            false => Ok(Err(Error::Deadline)),
        };
        results.push(LinkResult::from(created.unwrap_or(Err(Error::Deadline))));
    }
    results
}

async fn create_one(
    state: &AppState,
    link: Result<NewLink, Error>,
) -> Result<(StatusCode, ShortenResponse), Error> {
    shorten::create(state, &link?).await
}

impl From<Result<(StatusCode, ShortenResponse), Error>> for LinkResult {
    fn from(created: Result<(StatusCode, ShortenResponse), Error>) -> Self {
        match created {
            Ok((status, link)) => Self {
                status: status.as_u16(),
                link: Some(link),
                problem: None,
            },
            Err(error) => {
                // The response as a whole is no error, so this reason is logged here.
                if let (kind, Some(reason)) = error.for_log() {
                    tracing::error!(
                        event = "link_not_created",
                        error.r#type = kind,
                        error.message = reason,
                        "link_not_created"
                    );
                }
                let problem = error.problem(INSTANCE, None);
                Self {
                    status: problem.status,
                    link: None,
                    problem: Some(problem),
                }
            }
        }
    }
}
