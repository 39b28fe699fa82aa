//! The status of a ShortLink, and the text of the Event about links that were left.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::{
    is_held,
    wire::{Applied, AppliedLink},
};
use crate::api::{ShortLink, ShortLinkStatus};

/// The one type of condition of a ShortLink.
const READY: &str = "Ready";
/// The reason for a ShortLink without a stack.
pub(super) const STACK_NOT_FOUND: &str = "StackNotFound";
/// Number of codes that an Event names.
const NAMED: usize = 10;

/// The content of a ShortLink's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkVerdict {
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub ready: &'static str,
    /// Reason in CamelCase, for machines.
    pub reason: &'static str,
    /// Message of one sentence, for the user.
    pub message: String,
    /// Public URL of the link, while the stack has it.
    pub short_url: Option<String>,
}

impl LinkVerdict {
    /// Returns the verdict on a link that its app was not asked about, so that what is known of its URL stays.
    pub(super) fn no(link: &ShortLink, reason: &'static str, message: String) -> Self {
        Self {
            ready: "False",
            reason,
            message,
            short_url: known_url(link),
        }
    }

    /// Returns the verdict on a link whose stack there is not.
    pub(super) fn without_stack(message: String) -> Self {
        Self {
            ready: "False",
            reason: STACK_NOT_FOUND,
            message,
            short_url: None,
        }
    }

    /// Returns the verdict on a link whose app does not answer.
    pub(super) fn unknown(link: &ShortLink, message: String) -> Self {
        Self {
            ready: "Unknown",
            ..Self::no(link, "StackNotReachable", message)
        }
    }
}

fn known_url(link: &ShortLink) -> Option<String> {
    link.status.as_ref()?.short_url.clone()
}

/// Returns the verdict that follows from the answer of the app.
pub fn answered(link: &ShortLink, answer: &AppliedLink, now: Timestamp) -> LinkVerdict {
    let code = &link.spec.code;
    let told = || answer.message.clone().unwrap_or_default();
    let (ready, reason, message) = match answer.result {
        Applied::Created | Applied::Changed | Applied::Unchanged if link.spec.enabled => {
            ("True", "Serving", "the stack serves the link".to_owned())
        }
        Applied::Created | Applied::Changed | Applied::Unchanged => (
            "True",
            "LinkDisabled",
            "the link is disabled, as `enabled: false` asks: its code is answered with 410"
                .to_owned(),
        ),
        Applied::TakenDown => (
            "False",
            "TakenDown",
            "management has disabled the link, and can enable it".to_owned(),
        ),
        Applied::Taken => ("False", "CodeTaken", told()),
        Applied::Expired if is_held(link) && link.spec.is_over(now) => (
            "True",
            "LinkExpired",
            "the link has expired, as `expiresAt` asks: its code is answered with 410".to_owned(),
        ),
        Applied::Expired => (
            "False",
            "LinkExpired",
            "the link has expired, and an expired link is not made again: delete this ShortLink, or create one with another code".to_owned(),
        ),
        Applied::Deleted => (
            "False",
            "LinkDeleted",
            format!("the link {code} was deleted, and its code is never given out again: create a ShortLink with another code"),
        ),
        Applied::Invalid => (
            "False",
            "InvalidLink",
            format!("the stack refuses the link: {}", told()),
        ),
    };
    LinkVerdict {
        ready,
        reason,
        message,
        short_url: answer.short_url.clone(),
    }
}

/// Returns the condition that the status of a ShortLink has.
pub(super) fn reported(link: &ShortLink) -> Option<&Condition> {
    let mut conditions = link.status.as_ref()?.conditions.iter();
    conditions.find(|condition| condition.type_ == READY)
}

/// Returns the status of the condition: `True`, `False`, or `Unknown` for a ShortLink without one.
pub fn ready(link: &ShortLink) -> &'static str {
    match reported(link).map(|condition| condition.status.as_str()) {
        Some("True") => "True",
        Some("False") => "False",
        _ => "Unknown",
    }
}

/// Returns the status of a ShortLink if it differs from the one that it has.
pub fn status(link: &ShortLink, verdict: &LinkVerdict, now: &Time) -> Option<ShortLinkStatus> {
    let generation = link.metadata.generation;
    let before = reported(link).filter(|before| before.status == verdict.ready);
    let condition = Condition {
        type_: READY.to_owned(),
        status: verdict.ready.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message.clone(),
        observed_generation: generation,
        last_transition_time: before
            .map_or_else(|| now.clone(), |before| before.last_transition_time.clone()),
    };
    let status = ShortLinkStatus {
        observed_generation: generation,
        conditions: vec![condition],
        short_url: verdict.short_url.clone(),
    };
    (link.status.as_ref() != Some(&status)).then_some(status)
}

/// Returns the text of the Event about links that stay although their ShortLinks are gone.
pub fn left(codes: &[&str]) -> String {
    let named = codes[..codes.len().min(NAMED)].join(", ");
    let more = codes.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "ShortLinks were deleted while the app could not be reached, so their links stay as they were: {named}{more}. The operator releases them when the app answers. If the operator restarts before, create a ShortLink of the same name and destination and delete it"
    )
}
