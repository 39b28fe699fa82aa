//! The problem of each error: its status, type and title, and the time after which a retry is useful.

use http::StatusCode;

use super::Error;
use crate::auth::Denial;

impl Error {
    /// Returns the status, the last segment of the problem type, and the title.
    #[expect(clippy::too_many_lines, reason = "a table of all problems")]
    pub(super) fn kind(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            // The request, whatever it asks for.
            Self::MalformedJson(_) => (StatusCode::BAD_REQUEST, "malformed-json", "Malformed JSON"),
            Self::InvalidFields(_) => (StatusCode::BAD_REQUEST, "invalid-fields", "Invalid fields"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "Not found"),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "Method not allowed",
            ),
            Self::RequestTimeout => (
                StatusCode::REQUEST_TIMEOUT,
                "request-timeout",
                "Request timeout",
            ),
            Self::BodyTooLarge(_) | Self::TooManyValues(_) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-large",
                "Body too large",
            ),
            Self::UriTooLong(_) | Self::QueryTooLong(_) => {
                (StatusCode::URI_TOO_LONG, "uri-too-long", "URI too long")
            }
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                "Unsupported media type",
            ),
            Self::HeadersTooLarge(_) => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "headers-too-large",
                "Header fields too large",
            ),

            // The client.
            Self::RateLimited(_) | Self::KeyRateLimited(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "rate-limited",
                "Too many requests",
            ),
            Self::Denied(Denial::Unauthorized { .. }) => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized")
            }
            Self::Denied(Denial::Forbidden { .. }) => {
                (StatusCode::FORBIDDEN, "forbidden", "Forbidden")
            }

            // Links.
            Self::CodeTaken => (StatusCode::CONFLICT, "code-taken", "Code taken"),
            Self::Expired => (StatusCode::GONE, "link-expired", "Link expired"),
            Self::Disabled => (StatusCode::GONE, "link-disabled", "Link disabled"),
            Self::Legal { .. } => (
                StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS,
                "unavailable-for-legal-reasons",
                "Unavailable for legal reasons",
            ),
            Self::LinkGone => (StatusCode::CONFLICT, "link-gone", "Link gone"),

            // Jobs and documents.
            Self::TaskNotPublic => (StatusCode::FORBIDDEN, "task-not-public", "Task not public"),
            Self::ProfileDisabled(_) => (
                StatusCode::NOT_IMPLEMENTED,
                "profile-disabled",
                "Profile disabled",
            ),
            // https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/ section 2.7
            Self::KeyReused => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "Idempotency key reused",
            ),
            Self::DeadLettersBusy => (
                StatusCode::CONFLICT,
                "dead-letters-busy",
                "Dead letters busy",
            ),

            // What the app depends on, and the app itself.
            Self::QueueUnavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "queue-unavailable",
                "Queue unavailable",
            ),
            Self::VectorUnavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "vector-unavailable",
                "Vector store unavailable",
            ),
            Self::OtherCollection(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "vector-collection-mismatch",
                "Collection mismatch",
            ),
            Self::DatabaseUnavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "database-unavailable",
                "Database unavailable",
            ),
            Self::DatabaseBusy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "database-busy",
                "Database busy",
            ),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", "Busy"),
            Self::Deadline => (
                StatusCode::SERVICE_UNAVAILABLE,
                "deadline-exceeded",
                "Deadline exceeded",
            ),
            Self::Internal(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "Internal error",
            ),
        }
    }

    /// Returns the number of whole seconds after which a retry is useful.
    pub(super) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited(wait) | Self::KeyRateLimited(wait) => Some(
                wait.as_millis()
                    .div_ceil(1000)
                    .try_into()
                    .unwrap_or(u64::MAX)
                    .max(1),
            ),
            Self::DatabaseUnavailable(_)
            | Self::DatabaseBusy
            | Self::QueueUnavailable(_)
            | Self::VectorUnavailable(_)
            | Self::DeadLettersBusy
            | Self::Busy
            | Self::Deadline => Some(1),
            // The user has to act first.
            Self::OtherCollection(_) => Some(60),
            _ => None,
        }
    }
}
