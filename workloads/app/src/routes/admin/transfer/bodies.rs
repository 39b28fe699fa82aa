//! The response to an import.

use serde::Serialize;

use crate::{
    error::FieldError,
    store::management::{Imported, Summary},
};

/// The results of an import.
#[derive(Debug, Serialize)]
pub struct ImportResponse {
    /// Number of links that were stored.
    created: usize,
    /// Number of links that existed already.
    unchanged: usize,
    /// Number of links whose codes belong to other links.
    conflict: usize,
    /// Number of lines that are no links that the service can hold.
    invalid: usize,
    /// Results, in the order of the lines.
    results: Vec<ImportResult>,
}

/// The result of importing one line.
#[derive(Debug, Serialize)]
pub struct ImportResult {
    /// Number of the line, from 1.
    line: usize,
    /// Short code; null if the line has none.
    code: Option<String>,
    /// `created`, `unchanged`, `conflict` or `invalid`.
    result: &'static str,
    /// Reason of a conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Invalid fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

impl ImportResponse {
    /// Returns the response with these results.
    pub fn new(summary: Summary, results: Vec<ImportResult>) -> Self {
        let Summary {
            created,
            unchanged,
            conflict,
            invalid,
        } = summary;
        Self {
            created,
            unchanged,
            conflict,
            invalid,
            results,
        }
    }
}

impl ImportResult {
    /// Returns the result of a line with a link.
    pub fn new(line: usize, code: &str, imported: Imported) -> Self {
        let (result, reason) = match imported {
            Imported::Created => ("created", None),
            Imported::Unchanged => ("unchanged", None),
            Imported::Conflict(reason) => ("conflict", Some(reason)),
        };
        Self {
            line,
            code: Some(code.to_owned()),
            result,
            reason,
            errors: Vec::new(),
        }
    }

    /// Returns the result of a line that is no link.
    pub fn invalid(line: usize, code: Option<String>, errors: Vec<FieldError>) -> Self {
        Self {
            line,
            code,
            result: "invalid",
            reason: None,
            errors,
        }
    }
}
