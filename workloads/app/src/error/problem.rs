//! The body of an error response.

use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// The media type of an error response.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// Name of the field.
    pub field: &'static str,
    /// Rule that the field violates.
    pub reason: String,
}

/// An error response (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Type of the problem: a stable URI path.
    #[schema(example = "/problems/not-found")]
    pub r#type: String,
    /// Title of the problem type.
    pub title: &'static str,
    /// HTTP status code.
    pub status: u16,
    /// Description of this occurrence.
    pub detail: String,
    /// Path of the request.
    pub instance: String,
    /// Invalid fields, for `invalid-fields`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Trace identifier of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// The error responses of every route that reads a JSON body, for the OpenAPI document. It shows these comments, and
/// [`crate::openapi`] adds those of every route.
#[derive(Debug, IntoResponses)]
pub enum BodyProblem {
    /// The body did not arrive in time
    #[response(status = 408, content_type = PROBLEM_JSON)]
    Late(Problem),
    /// The body is too large
    #[response(status = 413, content_type = PROBLEM_JSON)]
    TooLarge(Problem),
    /// The body is not application/json
    #[response(status = 415, content_type = PROBLEM_JSON)]
    NotJson(Problem),
}

/// The error responses of every route that reads a body to its end without a use for it, for the OpenAPI document.
#[derive(Debug, IntoResponses)]
pub enum UnreadBody {
    /// The body is incomplete
    #[response(status = 400, content_type = PROBLEM_JSON)]
    Incomplete(Problem),
    /// The body did not arrive in time
    #[response(status = 408, content_type = PROBLEM_JSON)]
    Late(Problem),
    /// The body is too large
    #[response(status = 413, content_type = PROBLEM_JSON)]
    TooLarge(Problem),
}
