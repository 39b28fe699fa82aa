//! The response bodies.

use serde::Serialize;

use crate::store::management::ownership::{Applied, Owner, decision::Refusal};

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
    /// `created`, `changed` and `unchanged`: the database has what was asked for. `taken`, `expired`, `deleted` or `invalid`
    /// otherwise.
    result: &'static str,
    /// Reason, for `taken` and `invalid`; for `invalid` the field and its rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Public URL, if the database has what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    short_url: Option<String>,
    /// ShortLink to which the code belongs, for `taken`; absent if it belongs to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<OtherOwner>,
}

/// The ShortLink to which a code belongs.
#[derive(Debug, Serialize)]
pub struct OtherOwner {
    /// Namespace of the object.
    namespace: String,
    /// Name of the object.
    name: String,
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
            owner: None,
        };
        let done = |word| Self {
            short_url: Some(format!("{public_base}/{code}")),
            ..result(word, None)
        };
        match applied {
            Applied::Created => done("created"),
            Applied::Changed => done("changed"),
            Applied::Unchanged => done("unchanged"),
            Applied::Refused(Refusal::Expired) => result("expired", None),
            Applied::Refused(Refusal::Deleted) => result("deleted", None),
            Applied::Refused(Refusal::Invalid(message)) => Self::invalid(code, &message),
            Applied::Refused(Refusal::Taken { owner, reason }) => Self {
                owner: owner.map(OtherOwner::from),
                ..result("taken", Some(reason.to_owned()))
            },
        }
    }

    /// Returns the result of a link with a field that breaks a rule.
    pub(super) fn invalid(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            result: "invalid",
            message: Some(message.to_owned()),
            short_url: None,
            owner: None,
        }
    }
}

impl From<Owner> for OtherOwner {
    fn from(owner: Owner) -> Self {
        let Owner {
            namespace, name, ..
        } = owner;
        Self { namespace, name }
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
