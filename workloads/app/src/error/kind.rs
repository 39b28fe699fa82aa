//! The problem of each error: its status, type and title, and the time after which a retry is useful.

use http::StatusCode;

use super::Error;

impl Error {
    /// Returns the status, the last segment of the problem type, and the title.
    pub(super) fn kind(&self) -> (u16, &'static str, &'static str) {
        match self {
            // The request, whatever it asks for.
            Self::MalformedJson(_) => (400, "malformed-json", "Malformed JSON"),
            Self::InvalidFields(_) => (400, "invalid-fields", "Invalid fields"),
            Self::NotFound => (404, "not-found", "Not found"),
            Self::MethodNotAllowed => (405, "method-not-allowed", "Method not allowed"),
            Self::RequestTimeout => (408, "request-timeout", "Request timeout"),
            Self::BodyTooLarge(_) | Self::TooManyValues(_) => {
                (413, "body-too-large", "Body too large")
            }
            Self::UriTooLong(_) | Self::DestinationTooLong(_) => {
                (414, "uri-too-long", "URI too long")
            }
            Self::UnsupportedMediaType(_) => {
                (415, "unsupported-media-type", "Unsupported media type")
            }
            Self::HeadersTooLarge(_) => (431, "headers-too-large", "Header fields too large"),

            // The client.
            Self::RateLimited(_) | Self::KeyRateLimited(_) => {
                (429, "rate-limited", "Too many requests")
            }
            Self::Unauthorized { .. } => (401, "unauthorized", "Unauthorized"),
            Self::Forbidden { .. } | Self::ForeignLink { .. } => (403, "forbidden", "Forbidden"),
            Self::CrossOrigin => (403, "cross-origin", "Cross-origin request"),

            // Links.
            Self::CodeTaken => (409, "code-taken", "Code taken"),
            Self::Expired => (410, "link-expired", "Link expired"),
            Self::Disabled => (410, "link-disabled", "Link disabled"),
            Self::Legal { .. } => (
                451,
                "unavailable-for-legal-reasons",
                "Unavailable for legal reasons",
            ),
            Self::ClicksDisabled => (501, "clicks-disabled", "Clicks disabled"),
            Self::LinkGone => (409, "link-gone", "Link gone"),
            Self::ManagedLink { .. } => (409, "managed-link", "Managed link"),
            Self::ClientHasKey => (409, "client-has-key", "Client has a key"),
            Self::DeliveryInProgress => (409, "delivery-in-progress", "Delivery in progress"),

            // Jobs and documents.
            Self::TaskNotPublic => (403, "task-not-public", "Task not public"),
            Self::ProfileDisabled(_) => (501, "profile-disabled", "Profile disabled"),
            // https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/ section 2.7
            Self::KeyReused => (422, "idempotency-key-reused", "Idempotency key reused"),
            Self::DeadLettersBusy => (409, "dead-letters-busy", "Dead letters busy"),

            // What the app depends on, and the app itself.
            Self::StorageReserved => (503, "storage-reserved", "Storage reserved"),
            Self::QueueUnavailable(_) => (503, "queue-unavailable", "Queue unavailable"),
            Self::VectorUnavailable(_) => (503, "vector-unavailable", "Vector store unavailable"),
            Self::OtherCollection(_) => (503, "vector-collection-mismatch", "Collection mismatch"),
            Self::DatabaseUnavailable(_) => (503, "database-unavailable", "Database unavailable"),
            Self::DatabaseBusy => (503, "database-busy", "Database busy"),
            Self::Busy => (503, "busy", "Busy"),
            Self::Deadline => (503, "deadline-exceeded", "Deadline exceeded"),
            Self::Internal(_) => (500, "internal", "Internal error"),
        }
    }

    /// Returns the status.
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
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
            Self::OtherCollection(_) | Self::StorageReserved => Some(60),
            _ => None,
        }
    }
}
