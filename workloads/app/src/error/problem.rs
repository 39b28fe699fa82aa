//! The body of an error response.

use serde::Serialize;

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Name of the field.
    pub field: &'static str,
    /// Rule that the field violates.
    pub reason: String,
}

/// An error response (RFC 9457).
#[derive(Debug, Serialize)]
pub struct Problem {
    /// Type of the problem: a stable URI path.
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
