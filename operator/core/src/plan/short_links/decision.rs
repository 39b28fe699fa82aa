//! The next step for one ShortLink.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube_core::ResourceExt;

use super::{
    is_held,
    status::{LinkVerdict, STACK_NOT_FOUND, reported},
    target,
};
use crate::{
    api::{LinksSpec, ShortLink},
    model::link_permission::{Refused, allowed},
};

/// Time for which the operator tries to reach the app of a stack before a deleted ShortLink goes without it.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time for which a deleted ShortLink waits for the operator of another class or of other namespaces, which may be away.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(3600);
/// The reasons that need no answer of the app, and may be over although it does not answer.
const WITHOUT_APP: [&str; 3] = [
    STACK_NOT_FOUND,
    Refused::NAMESPACE_NOT_ALLOWED,
    Refused::CODE_NOT_ALLOWED,
];
/// Time until a ShortLink of which nothing is known is told that the app cannot be reached. Just after its start, the operator
/// knows no pods yet.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);

/// The stack that a ShortLink names.
#[derive(Clone, Copy, Debug)]
pub enum StackState<'a> {
    /// There is none.
    Missing,
    /// It would be in a namespace that the operator does not watch.
    Unwatched,
    /// It is being deleted.
    Deleted,
    /// The operator of another class has it.
    Foreign,
    /// Its app can be asked.
    Reachable(&'a LinksSpec),
    /// Its app cannot be asked.
    Unreachable {
        /// `None` if the resource cannot be parsed.
        links: Option<&'a LinksSpec>,
        /// The reason, as part of a sentence.
        why: &'a str,
        /// Time since the app was last reached, or since the operator began to try.
        since: Duration,
    },
}

/// The next step for a ShortLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Nothing yet: the app may be reached later, and the time of a state may be over.
    Wait,
    /// The status says this; the app is not asked.
    Report(LinkVerdict),
    /// The app makes the link as it is asked for.
    Apply,
    /// The app ends the ownership of the link, then the finalizer goes.
    Release,
    /// The finalizer goes and the app is not asked, because its database goes too or has no one to answer for it.
    Forget,
    /// The finalizer goes although the app was not reached, and the link stays as it is.
    Leave,
}

/// Returns the next step for a ShortLink.
pub fn step(link: &ShortLink, stack: StackState<'_>, now: Timestamp) -> Step {
    match &link.metadata.deletion_timestamp {
        Some(deleted) if is_held(link) => release(age(deleted.0, now), stack),
        // Nothing was claimed for it.
        Some(_) => Step::Rest,
        None => keep(link, stack),
    }
}

fn release(age: Duration, stack: StackState<'_>) -> Step {
    let (tried, patience) = match stack {
        StackState::Missing | StackState::Deleted => return Step::Forget,
        StackState::Reachable(_) => return Step::Release,
        StackState::Foreign | StackState::Unwatched => (age, PATIENCE_WITH_OTHERS),
        // An operator that was away begins to try anew.
        StackState::Unreachable { since, .. } => (age.min(since), PATIENCE),
    };
    if tried < patience {
        Step::Wait
    } else {
        Step::Leave
    }
}

fn keep(link: &ShortLink, stack: StackState<'_>) -> Step {
    let (namespace, name) = target(link);
    let missing = |what: String| Step::Report(LinkVerdict::without_stack(what));
    let links = match stack {
        StackState::Foreign => return Step::Rest,
        // Another operator may watch the stack, and has the last word.
        StackState::Unwatched if is_told(link) => return Step::Rest,
        StackState::Unwatched => {
            return missing(format!(
                "the operator does not watch namespace {namespace}, in which ShortenerStack {name} would be: add it to watchNamespaces of the operator"
            ));
        }
        StackState::Missing => {
            return missing(format!(
                "ShortenerStack {namespace}/{name} does not exist: create it"
            ));
        }
        StackState::Deleted => {
            return missing(format!(
                "ShortenerStack {namespace}/{name} is being deleted"
            ));
        }
        StackState::Reachable(links) => Some(links),
        StackState::Unreachable { links, .. } => links,
    };
    let own = link.namespace().unwrap_or_default();
    let allowed = links.map_or(Ok(()), |links| {
        allowed(links, &namespace, &own, &link.spec.code)
    });
    if let Err(refused) = allowed {
        let message = refused.to_string();
        return Step::Report(LinkVerdict::no(link, refused.reason(), message));
    }
    let StackState::Unreachable { why, since, .. } = stack else {
        return Step::Apply;
    };
    // What the app said of a link stays true: the stack itself says that it is down. Nor is another reason news. With each, the
    // statuses of thousands of links would change.
    let from_app = |ready: &Condition| !WITHOUT_APP.contains(&ready.reason.as_str());
    let is_known = is_told(link) && reported(link).is_some_and(from_app);
    if is_known || since < UNKNOWN_FOR {
        return Step::Wait;
    }
    Step::Report(LinkVerdict::unknown(
        link,
        format!(
            "ShortenerStack {namespace}/{name} cannot be reached: {why}; the operator goes on trying"
        ),
    ))
}

/// Returns true if the status of a ShortLink describes its spec.
fn is_told(link: &ShortLink) -> bool {
    let generation = link.metadata.generation;
    reported(link).is_some_and(|ready| ready.observed_generation == generation)
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
