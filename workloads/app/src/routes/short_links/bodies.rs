//! The response bodies.

use serde::Serialize;

use crate::store::management::ownership::{Applied, decision::Refusal};

/// The results of applying links.
#[derive(Debug, Serialize)]
pub struct ApplyResponse {
    /// Results, in the order of the links.
    pub(super) results: Vec<ApplyResult>,
}

/// The result of applying one link.
#[derive(Debug, Serialize)]
pub struct ApplyResult {
    /// Short code, as given.
    code: String,
    /// `created`, `changed` and `unchanged`: the database has what was asked for. `taken-down`: it has, but management has
    /// disabled the link. `taken`, `expired`, `deleted` or `invalid` otherwise.
    result: &'static str,
    /// Reason and remedy, for `taken` and `invalid`; for `invalid` the field and its rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Public URL, if the database has the link of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    short_url: Option<String>,
}

/// The results of releasing links.
#[derive(Debug, Serialize)]
pub struct ReleaseResponse {
    /// Results, in the order of the links.
    pub(super) results: Vec<ReleaseResult>,
}

/// The result of releasing one link.
#[derive(Debug, Serialize)]
pub struct ReleaseResult {
    /// Short code, as given.
    code: String,
    /// `released`, or `unknown` if the object with this identity owns no such code.
    result: &'static str,
}

impl ApplyResult {
    /// Returns the result of a link at a service with this URL.
    pub(super) fn new(code: &str, applied: Applied, public_base: &str) -> Self {
        let result = |result, message| Self {
            code: code.to_owned(),
            result,
            message,
            short_url: None,
        };
        let done = |word| Self {
            short_url: Some(format!("{public_base}/{code}")),
            ..result(word, None)
        };
        match applied {
            Applied::Created => done("created"),
            Applied::Changed => done("changed"),
            Applied::Unchanged => done("unchanged"),
            Applied::TakenDown => done("taken-down"),
            Applied::Refused(Refusal::Expired) => result("expired", None),
            Applied::Refused(Refusal::Deleted) => result("deleted", None),
            Applied::Refused(Refusal::Invalid(message)) => Self::invalid(code, &message),
            Applied::Refused(Refusal::Taken(message)) => result("taken", Some(message)),
        }
    }

    /// Returns the result of a link with a field that breaks a rule.
    pub(super) fn invalid(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            result: "invalid",
            message: Some(message.to_owned()),
            short_url: None,
        }
    }
}

impl ReleaseResult {
    pub(super) fn new(code: String, is_released: bool) -> Self {
        let result = match is_released {
            true => "released",
            false => "unknown",
        };
        Self { code, result }
    }
}
