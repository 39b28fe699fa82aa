//! The error type of the application, shown as `application/problem+json` (RFC 9457).
//!
//! A handler returns [`Error`]. [`crate::observe`] adds the path and the trace of the request, and writes the body.

mod kind;
mod problem;

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE, LINK, RETRY_AFTER, WWW_AUTHENTICATE},
};
use shortener_common::{database::StoreError, documents::IndexError, vector::VectorError};

pub use self::problem::{FieldError, Problem};
use crate::{
    publisher::{Refusal, letters::LettersError},
    store::Takedown,
};

/// The media type of an error response.
const PROBLEM_JSON: &str = "application/problem+json";

/// An error of a request. The variants are grouped by subject, as are their problems.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    // The request, whatever it asks for.
    /// The body is not a JSON object.
    #[error("{0}")]
    MalformedJson(String),
    /// Fields of the body are invalid.
    #[error("One or more fields are invalid; `errors` lists them and their rules.")]
    InvalidFields(Vec<FieldError>),
    /// There is no such route, or no such code.
    #[error("Nothing exists at this path.")]
    NotFound,
    /// The route exists, but not with this method; the router lists the allowed methods in `Allow`.
    #[error("This path does not support the method; `Allow` lists the supported ones.")]
    MethodNotAllowed,
    /// The body did not arrive in time.
    #[error("The request body did not arrive in time; send the request again.")]
    RequestTimeout,
    /// The body is larger than this many bytes.
    #[error("The request body may be at most {0} bytes long.")]
    BodyTooLarge(usize),
    /// The body has more values and names than this.
    #[error("The body may have at most {0} values and names; send fewer.")]
    TooManyValues(usize),
    /// The path and the query are longer than this many bytes.
    #[error("The path and query may be at most {0} bytes long.")]
    UriTooLong(usize),
    /// The destination with the query or the arguments of the request is longer than this many bytes.
    #[error(
        "The destination may be at most {0} bytes long together with the query or the arguments of the request; shorten these."
    )]
    DestinationTooLong(usize),
    /// The body has not got this media type, or is compressed.
    #[error("The body must be sent as {0} without a content encoding.")]
    UnsupportedMediaType(&'static str),
    /// All header fields together are larger than this many bytes.
    #[error("The header fields may be at most {0} bytes long.")]
    HeadersTooLarge(usize),

    // The client.
    /// The client exceeded its rate limit; it may retry after this time.
    #[error("Too many requests from this address; `Retry-After` gives the seconds to wait.")]
    RateLimited(Duration),
    /// The client exceeded the rate limit of its keys; it may retry after this time.
    #[error("Too many requests with this key; `Retry-After` gives the seconds to wait.")]
    KeyRateLimited(Duration),
    /// The request has no key, or none that is known (RFC 9110, section 15.5.2).
    #[error("{detail}")]
    Unauthorized {
        detail: &'static str,
        /// The value of `WWW-Authenticate` (RFC 6750, section 3).
        challenge: HeaderValue,
    },
    /// The key of the request has not got the scope.
    #[error("The key may not be used for this; it needs the scope `{scope}`.")]
    Forbidden {
        scope: &'static str,
        /// The value of `WWW-Authenticate`.
        challenge: HeaderValue,
    },

    /// A page of another origin made a browser send a change.
    #[error(
        "A page of another origin may not change anything here. If it is the page of this service, its gateway changed the field `Host`."
    )]
    CrossOrigin,

    // Links.
    /// The link is not one of those that the key may manage, or not in this way.
    #[error(
        "The link belongs to another client or to none, or others have disabled it; this needs the scope `{scope}`."
    )]
    ForeignLink {
        scope: &'static str,
        /// The value of `WWW-Authenticate`.
        challenge: HeaderValue,
    },
    /// The chosen code belongs to another link.
    #[error("The code belongs to another link, and links never change; choose another code.")]
    CodeTaken,
    /// The link existed and has expired.
    #[error("The link has expired.")]
    Expired,
    /// The link was disabled or deleted.
    #[error("The link was taken down.")]
    Disabled,
    /// The link was disabled for legal reasons.
    #[error("{}", .notice.as_deref().unwrap_or("The link is not available for legal reasons."))]
    Legal {
        /// A text about the reasons.
        notice: Option<String>,
        /// The URL of the service, which does not follow the link.
        blocked_by: String,
    },
    /// The service counts no clicks.
    #[error("Clicks are not counted: `links.clicks.enabled` is false.")]
    ClicksDisabled,
    /// The link cannot be changed any more.
    #[error("The link has expired or was deleted, so it cannot be changed; create another one.")]
    LinkGone,
    /// The link belongs to a ShortLink, which would undo the change.
    #[error(
        "The link belongs to ShortLink {namespace}/{name}, which decides what it is; change that object."
    )]
    ManagedLink { namespace: String, name: String },

    /// The name would come back with the next request.
    #[error("The client has a key, with which its name would come back; remove the key first.")]
    ClientHasKey,

    /// The webhook is being sent.
    #[error(
        "The message is being sent at this moment; look at the result, and retry it if it fails."
    )]
    DeliveryInProgress,

    // Jobs and documents.
    /// The task needs a key, and the service has none.
    #[error("This task cannot be enqueued from outside: it is not in `queue.publicTasks`.")]
    TaskNotPublic,
    /// The profile is not enabled.
    #[error("The {0} profile is not enabled in this stack.")]
    ProfileDisabled(&'static str),
    /// The idempotency key belongs to a request with another body.
    #[error(
        "The Idempotency-Key was already used with another body; use a new key for another request."
    )]
    KeyReused,
    /// Another request works on the dead letters.
    #[error("Another request works on the dead letters; retry later.")]
    DeadLettersBusy,

    // What the app depends on, and the app itself.
    /// The database has no more space for requests without a key.
    #[error(
        "The database is nearly full, and the rest of its space is kept for clients with keys; retry later."
    )]
    StorageReserved,
    /// The queue does not accept the job now; the reason is logged and never shown.
    #[error("The queue does not accept jobs at the moment; retry later.")]
    QueueUnavailable(String),
    /// The vector store is unavailable; the reason is logged and never shown.
    #[error("The vector store is not available; retry later.")]
    VectorUnavailable(String),
    /// The collection in the vector store differs from the settings.
    #[error("The collection of the vector store does not match the settings: {0}.")]
    OtherCollection(String),
    /// The database is unavailable; the reason is logged and never shown.
    #[error("The database is not available; retry later.")]
    DatabaseUnavailable(String),
    /// Every connection to the database is in use.
    #[error("The database is busy; retry later.")]
    DatabaseBusy,
    /// There is no memory for the body of the request beside those of others.
    #[error("There are too many large requests at the moment; retry later.")]
    Busy,
    /// The response was not ready before the deadline of the request.
    #[error("The request took longer than its time limit; retry later.")]
    Deadline,
    /// An internal error; the reason is logged and never shown.
    #[error("An internal error occurred.")]
    Internal(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(reason) | StoreError::TimedOut(reason) => {
                Self::DatabaseUnavailable(reason)
            }
            StoreError::Busy => Self::DatabaseBusy,
            StoreError::Internal(error) => Self::Internal(error.to_string()),
        }
    }
}

impl From<VectorError> for Error {
    fn from(error: VectorError) -> Self {
        match error {
            VectorError::Unavailable { reason, .. } => Self::VectorUnavailable(reason),
            VectorError::OtherCollection { .. } => Self::OtherCollection(error.to_string()),
            VectorError::Refused(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Database(error) => error.into(),
            IndexError::Vector(error) => error.into(),
            stalled @ IndexError::Stalled(_) => Self::Internal(stalled.to_string()),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::QueueUnavailable(refusal.to_string())
    }
}

impl From<LettersError> for Error {
    fn from(error: LettersError) -> Self {
        match error {
            LettersError::Busy => Self::DeadLettersBusy,
            LettersError::OutOfTime => Self::Deadline,
            LettersError::Refused(refusal) => refusal.into(),
            LettersError::Unrecorded(error) => error.into(),
            LettersError::Broker(error) => Self::QueueUnavailable(error.to_string()),
        }
    }
}

impl Error {
    /// Returns the error of a link that is down at the service with this URL.
    pub fn taken_down(takedown: Takedown, blocked_by: &str) -> Self {
        match takedown {
            Takedown::Disabled => Self::Disabled,
            Takedown::Legal { notice } => Self::Legal {
                notice,
                blocked_by: blocked_by.to_owned(),
            },
        }
    }

    /// Returns the error of one invalid field.
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::InvalidFields(vec![FieldError { field, reason }])
    }

    /// Returns the problem type and, for server errors, the reason. Both are for the log.
    pub fn for_log(&self) -> (&'static str, Option<&str>) {
        let reason = match self {
            Self::Internal(reason)
            | Self::DatabaseUnavailable(reason)
            | Self::QueueUnavailable(reason)
            | Self::VectorUnavailable(reason)
            | Self::OtherCollection(reason) => Some(reason.as_str()),
            _ => None,
        };
        (self.kind().1, reason)
    }

    /// Returns the problem with the path and the trace of the request.
    pub fn problem(&self, instance: &str, trace_id: Option<String>) -> Problem {
        let (status, slug, title) = self.kind();
        let errors = match self {
            Self::InvalidFields(errors) => errors.clone(),
            _ => Vec::new(),
        };
        Problem {
            r#type: format!("/problems/{slug}"),
            title,
            status,
            detail: self.to_string(),
            instance: instance.chars().take(256).collect(),
            errors,
            trace_id,
        }
    }

    /// Builds the complete response with the path and the trace of the request.
    pub fn to_problem(&self, instance: &str, trace_id: Option<String>) -> Response {
        let retry_after = self.retry_after();
        let body = serde_json::to_vec(&self.problem(instance, trace_id)).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        // Caches may otherwise keep a 404, 405, 410, 414 or 501 for as long as they like (RFC 9110, section 15.1).
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Self::Unauthorized { challenge, .. }
        | Self::Forbidden { challenge, .. }
        | Self::ForeignLink { challenge, .. } = self
        {
            headers.insert(WWW_AUTHENTICATE, challenge.clone());
        }
        // https://www.rfc-editor.org/rfc/rfc7725 section 4
        if let Self::Legal { blocked_by, .. } = self
            && let Ok(link) = HeaderValue::try_from(format!("<{blocked_by}>; rel=\"blocked-by\""))
        {
            headers.insert(LINK, link);
        }
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Converts the error into an empty response that carries it; [`crate::observe`] completes the response.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        response
            .extensions_mut()
            .insert(ErrorExtension(std::sync::Arc::new(self)));
        response
    }
}

/// An [`Error`] in the extensions of a response. It is shared, because extensions must be cloneable.
#[derive(Clone, Debug)]
pub struct ErrorExtension(pub std::sync::Arc<Error>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_keeps_an_error() {
        for error in [
            Error::NotFound,
            Error::Expired,
            Error::Disabled,
            Error::MethodNotAllowed,
        ] {
            assert_eq!(
                error.to_problem("/", None).headers()[CACHE_CONTROL],
                "no-store"
            );
        }
    }

    #[test]
    fn waiting_times_are_rounded_up_to_whole_seconds() {
        for (milliseconds, seconds) in [(1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
            let error = Error::RateLimited(Duration::from_millis(milliseconds));
            assert_eq!(
                error.to_problem("/", None).headers()[RETRY_AFTER],
                seconds.to_string()
            );
        }
    }

    #[tokio::test]
    async fn a_link_that_is_blocked_for_legal_reasons_says_by_whom() {
        for (notice, detail) in [
            (None, "The link is not available for legal reasons."),
            (Some("by \"order\""), "by \\\"order\\\""),
        ] {
            let notice = notice.map(str::to_owned);
            let takedown = Takedown::Legal { notice };
            let error = Error::taken_down(takedown, "https://go.example.com");
            let response = error.to_problem("/a", None);
            assert_eq!(response.status(), 451);
            assert_eq!(
                response.headers()[LINK],
                "<https://go.example.com>; rel=\"blocked-by\""
            );
            let body = axum::body::to_bytes(response.into_body(), 4096).await;
            let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
            assert!(body.contains(&format!("\"detail\":\"{detail}\"")), "{body}");
        }
    }

    #[test]
    fn a_refusal_names_its_challenge() {
        let challenge = HeaderValue::from_static("Bearer realm=\"a\"");
        let unauthorized = Error::Unauthorized {
            detail: "no key",
            challenge: challenge.clone(),
        };
        let forbidden = Error::Forbidden {
            scope: "jobs",
            challenge: challenge.clone(),
        };
        for (error, status) in [(unauthorized, 401), (forbidden, 403)] {
            let response = error.to_problem("/", None);
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[WWW_AUTHENTICATE], challenge);
        }
    }

    #[tokio::test]
    async fn an_internal_error_shows_nothing_of_its_reason() {
        let response = Error::Internal("password=hunter2".to_owned())
            .to_problem("/x", Some("0af7".to_owned()));
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 4096)
            .await
            .unwrap();
        assert_eq!(
            String::from_utf8(body.to_vec()).unwrap(),
            r#"{"type":"/problems/internal","title":"Internal error","status":500,"detail":"An internal error occurred.","instance":"/x","trace_id":"0af7"}"#
        );
    }
}
