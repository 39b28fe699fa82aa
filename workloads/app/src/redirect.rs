//! The answer to a code: one look-up, no JSON, no formatting, no copy of the code.

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, LOCATION},
};

use crate::{
    code::Code,
    error::Error,
    location,
    state::SharedState,
    store::Resolved,
    target::MAX_LOCATION,
    template::{self, Unfit},
};

/// The answer to a code.
pub struct Followed {
    pub response: Response,
    /// True if it leads to the destination of a link, and false if it leads to a target of the settings.
    pub is_live: bool,
}

/// The path of a request that follows a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    pub code: Code<'a>,
    /// The path behind the code and a slash, for a link with arguments; `None` without that slash.
    pub arguments: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Returns the target of a path; `None` if it begins with no code.
    pub fn of(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let (code, arguments) = match path.split_once('/') {
            Some((code, arguments)) => (code, Some(arguments)),
            None => (path, None),
        };
        let code = Code::parse(code).ok()?;
        Some(Self { code, arguments })
    }
}

/// Redirects to the destination of a short link. The query is that of the request, and `fields` is an empty map for the
/// response.
///
/// # Errors
/// Fails if the code leads nowhere, or if the database is down and the code is not in the cache.
pub async fn follow(
    state: &SharedState,
    Target { code, arguments }: Target<'_>,
    query: Option<&str>,
    fields: HeaderMap,
) -> Result<Followed, Error> {
    let settings = &state.config.links;
    let query = query.filter(|_| settings.links_forward_query);
    let (response, is_live) = match state.links.find(code).await? {
        Resolved::To(_) | Resolved::Nothing if arguments.is_some() => return Err(Error::NotFound),
        Resolved::To(url) => (redirect(with_query(url, query)?, fields), true),
        Resolved::Template(template) => {
            let url = expanded(&template, arguments.unwrap_or_default())?;
            (redirect(with_query(url, query)?, fields), true)
        }
        Resolved::Gone => {
            let expired = settings.links_expired_target.as_ref();
            (target(expired, Error::Expired), false)
        }
        Resolved::Down(takedown) => return Err(Error::taken_down(takedown, &state.public_base)),
        Resolved::Nothing => {
            let unknown = settings.links_unknown_target.as_ref();
            (target(unknown, Error::NotFound), false)
        }
    };
    response.map(|response| Followed { response, is_live })
}

/// Redirects to a target of the settings.
///
/// # Errors
/// Returns the error if there is no target.
pub fn target(target: Option<&HeaderValue>, error: Error) -> Result<Response, Error> {
    let found = |target: &HeaderValue| found(target.clone(), HeaderMap::new());
    target.map(found).ok_or(error)
}

/// Returns the destination of a link with arguments.
fn expanded(template: &str, arguments: &str) -> Result<Bytes, Error> {
    match template::expand(template, arguments) {
        Ok(url) => Ok(url.into()),
        Err(Unfit::Refused) => Err(Error::NotFound),
        Err(Unfit::TooLong) => Err(Error::DestinationTooLong(MAX_LOCATION)),
    }
}

/// Returns a destination with the query of the request.
fn with_query(url: Bytes, query: Option<&str>) -> Result<Bytes, Error> {
    match query.filter(|query| !query.is_empty()) {
        Some(query) => location::with_query(&url, query)
            .map(Bytes::from)
            .ok_or(Error::DestinationTooLong(MAX_LOCATION)),
        None => Ok(url),
    }
}

fn redirect(url: Bytes, fields: HeaderMap) -> Result<Response, Error> {
    // The bytes of the store become the header value as they are. Anything that could split a header is rejected here.
    let location = HeaderValue::from_maybe_shared(url).map_err(|_| {
        Error::Internal("a stored destination is not a valid header value".to_owned())
    })?;
    Ok(found(location, fields))
}

fn found(location: HeaderValue, mut fields: HeaderMap) -> Response {
    fields.insert(LOCATION, location);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // An empty body takes no memory.
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    *response.headers_mut() = fields;
    response
}
