//! The body of an error.

use serde::Serialize;
use utoipa::ToSchema;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The field's name.
    pub field: &'static str,
    /// The rule that it breaks.
    pub reason: String,
}

/// An error as clients see it (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A stable URI path that names the kind of problem.
    #[schema(example = "/problems/not-found")]
    pub r#type: String,
    /// The kind of problem in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// This occurrence in words.
    pub detail: String,
    /// The path that was asked for.
    pub instance: String,
    /// The fields at fault, for `invalid-fields`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The trace in which the problem occurred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}
