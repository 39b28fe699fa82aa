//! Creation of short links.

use std::time::Duration;

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header::LOCATION};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::Url;

use crate::{
    auth, body,
    code::Code,
    destination::Destinations,
    error::Error,
    faults::Faults,
    idempotency::idempotency_key,
    routes::labels,
    state::AppState,
    store::{
        Link,
        labels::Labels,
        postgres::{NewLink, Outcome, RequestKey},
    },
    template,
};

/// The maximum size of a request body in bytes.
pub const MAX_BODY: usize = 16 * 1024;
/// The minimum lifetime of a link that expires.
pub const MIN_LIFE: Duration = Duration::from_secs(60);
/// The maximum lifetime of a link that expires: 5 years of 365 days.
pub const MAX_LIFE: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

/// A link to be created. Unknown fields are ignored, and `null` means absent.
// The parser accepts any value in a field, so that it can report every invalid one.
#[derive(Debug, Deserialize)]
pub struct ShortenRequest {
    /// Destination: http:// or https:// with a host, without a user name, at most 2048 bytes, and allowed by the rules of
    /// the service.
    url: Option<Value>,
    /// True if the destination is a template: `{1}` to `{9}` stand for the segments behind the code in the path of a request,
    /// and `{path}` for all of them. They stand behind the host.
    template: Option<Value>,
    /// Code chosen by the client; generated if absent. The first segments of other paths are reserved, and names of later
    /// ones.
    code: Option<Value>,
    /// Seconds until the link expires. Must not be combined with `expires_at`.
    ttl_seconds: Option<Value>,
    /// Expiry time of the link (RFC 3339), from a minute to 5 years of 365 days from now. Must not be combined with
    /// `ttl_seconds`.
    expires_at: Option<Value>,
    /// Returns an existing link to the same destination instead, if there is one that never expires.
    reuse: Option<Value>,
    /// Title, in one line, for the operators of the service. A link that is reused keeps its own, like the next two.
    title: Option<Value>,
    /// Tags, by which the link is found. They are stored in lower case, each once.
    tags: Option<Value>,
    /// Note, which may have several lines.
    note: Option<Value>,
    /// Host of the short URL in the response: one of the hosts of the service. Every link works on each of them.
    host: Option<Value>,
}

/// A link that was created or reused.
#[derive(Debug, Serialize)]
pub struct ShortenResponse {
    #[serde(flatten)]
    link: Link,
    /// Public URL of the link.
    short_url: String,
}

/// Creates a short link.
pub async fn shorten(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let created_by = auth::client_of(&request).map(str::to_owned);
    let key = idempotency_key(&request)?;
    let (text, _share) = body::json_text(request, MAX_BODY, &state.memory.bodies).await?;
    let once = key.map(|key| RequestKey {
        key,
        body_sha256: Sha256::digest(&text).into(),
    });
    let read = |body| parse(body, &state.destinations, Timestamp::now());
    let (status, body) = match body::object(&text, read) {
        Ok(mut link) => {
            (link.once, link.created_by) = (once, created_by);
            create(&state, &link).await?
        }
        Err(refusal) => match repeated(&state, &text, once).await? {
            Some(response) => response,
            None => return Err(refusal),
        },
    };
    let location = HeaderValue::from_str(&body.short_url)
        .map_err(|error| Error::Internal(error.to_string()))?;
    Ok((status, [(LOCATION, location)], Json(body)).into_response())
}

/// Creates a link, or finds the one to reuse.
pub(super) async fn create(
    state: &AppState,
    link: &NewLink,
) -> Result<(StatusCode, ShortenResponse), Error> {
    response(state, link, state.links.create(link).await?)
}

/// Returns the response to a request that is not valid any more, if it was once and created or found a link: its
/// `expires_at` has come closer, or the rules have changed. A client that repeats it has to get the same response.
async fn repeated(
    state: &AppState,
    text: &[u8],
    once: Option<RequestKey>,
) -> Result<Option<(StatusCode, ShortenResponse)>, Error> {
    let (Some(once), Ok(mut link)) = (once, body::object(text, accepted)) else {
        return Ok(None);
    };
    link.once = Some(once);
    match state.links.repeated(&link).await? {
        Some(outcome) => response(state, &link, outcome).map(Some),
        None => Ok(None),
    }
}

/// Returns the response to a request for a link.
fn response(
    state: &AppState,
    request: &NewLink,
    outcome: Outcome,
) -> Result<(StatusCode, ShortenResponse), Error> {
    let (status, link) = match outcome {
        Outcome::Created(link) => (StatusCode::CREATED, link),
        Outcome::Reused(link) => (StatusCode::OK, link),
        // By then a link exists that could be reused.
        Outcome::Repeated(link) if request.reuse => (StatusCode::OK, link),
        Outcome::Repeated(link) => (StatusCode::CREATED, link),
        Outcome::OtherBody => return Err(Error::KeyReused),
        Outcome::Taken if request.code.is_some() => return Err(Error::CodeTaken),
        Outcome::Taken => return Err(Error::Internal("no free code was found".to_owned())),
    };
    let base = match &request.host {
        Some(host) => base_at(&state.config.public_url, host)?,
        None => state.public_base.clone(),
    };
    Ok((status, ShortenResponse::new(link, &base)))
}

/// Returns the base of the short URLs with another host. The scheme and the port stay.
fn base_at(public_url: &Url, host: &str) -> Result<String, Error> {
    let mut url = public_url.clone();
    url.set_host(Some(host))
        .map_err(|error| Error::Internal(error.to_string()))?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

impl ShortenResponse {
    fn new(link: Link, public_base: &str) -> Self {
        Self {
            short_url: format!("{public_base}/{}", link.code),
            link,
        }
    }
}

/// Parses the fields of a request, and reports every invalid one.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub fn parse(
    body: Map<String, Value>,
    destinations: &Destinations,
    now: Timestamp,
) -> Result<NewLink, Error> {
    let request: ShortenRequest = body::fields(body)?;
    let mut faults = Faults::default();
    let now = whole_microseconds(now);
    let template = faults.flag("template", request.template);
    let url = faults.value("url", url_field(request.url, template, destinations));
    let code = faults.value("code", code_field(request.code));
    let expires_at = expiry(request.ttl_seconds, request.expires_at, now)
        .unwrap_or_else(|(field, reason)| faults.add(field, reason));
    let reuse = faults.flag("reuse", request.reuse);
    let labels = Labels {
        title: faults.value("title", request.title.map(labels::title).transpose()),
        tags: faults.value("tags", request.tags.map_or(Ok(Vec::new()), labels::tags)),
        note: faults.value("note", request.note.map(labels::note).transpose()),
    };
    let host = faults.value("host", host_field(request.host, destinations));
    faults.end(NewLink {
        code,
        url,
        template,
        created_at: now,
        expires_at,
        created_by: None,
        labels,
        reuse,
        host,
        once: None,
    })
}

/// Reads the fields that the response to a repeated request needs. They were valid when the link was created.
fn accepted(body: Map<String, Value>) -> Result<NewLink, Error> {
    let request: ShortenRequest = body::fields(body)?;
    let text = |field: Option<Value>| field?.as_str().map(str::to_owned);
    Ok(NewLink {
        url: text(request.url).unwrap_or_default(),
        code: text(request.code),
        host: text(request.host),
        reuse: request.reuse == Some(Value::Bool(true)),
        ..NewLink::default()
    })
}

fn url_field(
    url: Option<Value>,
    is_template: bool,
    destinations: &Destinations,
) -> Result<String, String> {
    match url {
        None => Err("is required".to_owned()),
        Some(Value::String(url)) => {
            destinations
                .check(&url)
                .map_err(|error| error.to_string())?;
            if is_template {
                template::check(&url).map_err(|error| error.to_string())?;
            }
            Ok(url)
        }
        Some(_) => Err("must be a string".to_owned()),
    }
}

fn host_field(host: Option<Value>, destinations: &Destinations) -> Result<Option<String>, String> {
    match host {
        None => Ok(None),
        Some(Value::String(host)) if destinations.own.iter().any(|own| own.names(&host)) => {
            Ok(Some(host))
        }
        Some(_) => Err("must be one of the hosts of this service".to_owned()),
    }
}

fn code_field(code: Option<Value>) -> Result<Option<String>, String> {
    match code {
        None => Ok(None),
        Some(Value::String(code)) => match Code::parse(&code) {
            Ok(_) => Ok(Some(code)),
            Err(error) => Err(error.to_string()),
        },
        Some(_) => Err("must be a string".to_owned()),
    }
}

/// Returns the expiry time from `ttl_seconds` or `expires_at`.
pub(super) fn expiry(
    ttl_seconds: Option<Value>,
    expires_at: Option<Value>,
    now: Timestamp,
) -> Result<Option<Timestamp>, (&'static str, String)> {
    let (field, life) = match (ttl_seconds, expires_at) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err((
                "expires_at",
                "must not be combined with ttl_seconds".to_owned(),
            ));
        }
        (Some(ttl), None) => {
            let seconds = ttl
                .as_number()
                .and_then(body::whole::<u64>)
                .ok_or_else(|| {
                    (
                        "ttl_seconds",
                        "must be a whole number of seconds".to_owned(),
                    )
                })?;
            ("ttl_seconds", Duration::from_secs(seconds))
        }
        (None, Some(end)) => {
            let end = end.as_str().and_then(|text| text.parse::<Timestamp>().ok());
            let end = end.ok_or_else(|| {
                (
                    "expires_at",
                    "must be a time like 2030-01-31T12:00:00Z".to_owned(),
                )
            })?;
            // A time in the past gives a lifetime of zero.
            (
                "expires_at",
                Duration::try_from(whole_microseconds(end).duration_since(now)).unwrap_or_default(),
            )
        }
    };
    let bounds = format!(
        "must be between {} seconds and 5 years ({} seconds) from now",
        MIN_LIFE.as_secs(),
        MAX_LIFE.as_secs()
    );
    if !(MIN_LIFE..=MAX_LIFE).contains(&life) {
        return Err((field, bounds));
    }
    now.checked_add(life).map(Some).map_err(|_| (field, bounds))
}

/// Truncates to microseconds, the precision of the database, so that the response equals the stored time.
pub(super) fn whole_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2030-01-01T00:00:00.123456789Z";

    fn parsed(body: Value) -> Result<NewLink, Vec<(&'static str, String)>> {
        let destinations = Destinations::from(&"http://localhost:8080".parse().unwrap());
        let Value::Object(body) = body else {
            panic!("not an object")
        };
        parse(body, &destinations, NOW.parse().unwrap()).map_err(|error| match error {
            Error::InvalidFields(errors) => errors
                .into_iter()
                .map(|error| (error.field, error.reason))
                .collect(),
            other => panic!("{other:?}"),
        })
    }

    fn fields_at_fault(body: Value) -> Vec<&'static str> {
        parsed(body)
            .unwrap_err()
            .into_iter()
            .map(|(field, _)| field)
            .collect()
    }

    #[test]
    fn a_url_alone_is_enough_and_unknown_fields_and_nulls_are_ignored() {
        let link = parsed(json!({"url": "https://example.com/a?b=c", "code": null, "ttl_seconds": null, "expires_at": null, "reuse": null, "title": null, "tags": null, "more": 7})).unwrap();
        assert_eq!(link.url, "https://example.com/a?b=c");
        assert_eq!(
            (link.code, link.expires_at, link.reuse),
            (None, None, false)
        );
        assert!(link.labels.is_empty());
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        assert_eq!(
            fields_at_fault(
                json!({"url": 1, "code": "a b", "ttl_seconds": 1, "reuse": "yes", "title": "", "tags": "a", "note": 1})
            ),
            [
                "url",
                "code",
                "ttl_seconds",
                "reuse",
                "title",
                "tags",
                "note"
            ]
        );
        assert_eq!(fields_at_fault(json!({})), ["url"]);
    }

    #[test]
    fn wrong_types_are_faults() {
        for (field, value) in [
            ("url", json!(["https://example.com"])),
            ("code", json!(7)),
            ("ttl_seconds", json!("60")),
            ("ttl_seconds", json!(60.5)),
            ("ttl_seconds", json!(-60)),
            ("ttl_seconds", json!(1e300)),
            ("expires_at", json!(1_900_000_000)),
            ("expires_at", json!("tomorrow")),
            ("expires_at", json!("2030-01-02")),
            ("reuse", json!(1)),
        ] {
            let mut body = json!({"url": "https://example.com"});
            body[field] = value.clone();
            assert_eq!(fields_at_fault(body), [field], "{value}");
        }
    }

    #[test]
    fn nul_characters_are_faults_and_not_errors_of_the_database() {
        assert_eq!(
            fields_at_fault(json!({"url": "https://example.com/\0", "code": "a\0"})),
            ["url", "code"]
        );
    }

    #[test]
    fn the_life_of_a_link_is_bounded_on_both_sides() {
        let with =
            |field: &str, value: Value| parsed(json!({"url": "https://example.com", field: value}));
        for (ttl, good) in [
            (0, false),
            (59, false),
            (60, true),
            (157_680_000, true),
            (157_680_001, false),
            (u64::MAX, false),
        ] {
            assert_eq!(with("ttl_seconds", json!(ttl)).is_ok(), good, "{ttl}");
        }
        for (end, good) in [
            ("2030-01-01T00:00:59Z", false),
            ("2030-01-01T00:01:00.123456Z", true),
            ("2030-01-01T02:01:01+02:00", true),
            ("2034-12-30T23:59:59Z", true),
            ("2035-01-02T00:00:00Z", false),
            ("2020-01-01T00:00:00Z", false),
            ("9999-12-30T22:00:00Z", false),
        ] {
            assert_eq!(with("expires_at", json!(end)).is_ok(), good, "{end}");
        }
        assert_eq!(
            fields_at_fault(
                json!({"url": "https://example.com", "ttl_seconds": 60, "expires_at": "2031-01-01T00:00:00Z"})
            ),
            ["expires_at"]
        );
    }

    #[test]
    fn times_are_kept_in_whole_microseconds() {
        let link = parsed(json!({"url": "https://example.com", "ttl_seconds": 60})).unwrap();
        assert_eq!(link.created_at.to_string(), "2030-01-01T00:00:00.123456Z");
        assert_eq!(
            link.expires_at.unwrap().to_string(),
            "2030-01-01T00:01:00.123456Z"
        );
    }
}
