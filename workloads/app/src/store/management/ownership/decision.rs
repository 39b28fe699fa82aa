//! The decision about a link that a ShortLink asks for: from the state of the code and the wish to what has to be done.

use jiff::Timestamp;

use super::{
    super::{
        change::{Change, Edit},
        record::{LinkRecord, LinkState, LinkTakedown},
    },
    Owner, is_short_link,
};
use crate::store::labels::LabelChange;

/// A link as a ShortLink asks for it. Every field is checked, except that `url` may break the rules for new links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    pub code: String,
    pub url: String,
    /// The rule for new links that the destination breaks. A link that exists keeps its destination.
    pub broken_rule: Option<String>,
    pub title: Option<String>,
    /// The tags, as they are stored.
    pub tags: Vec<String>,
    pub enabled: bool,
    /// The expiry time, in whole microseconds.
    pub expires_at: Option<Timestamp>,
    /// True if a link to the same destination is taken over that belongs to no ShortLink.
    pub adopts: bool,
    pub owner: Owner,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The code is free: create the link.
    Create,
    /// Change the link.
    Change {
        /// True if the owner has to be recorded first.
        is_claimed: bool,
        changes: Vec<Change>,
    },
    /// Nothing: the link is as asked.
    Keep,
    /// Nothing: the wish cannot be met.
    Refuse(Refusal),
}

/// The reason why a wish cannot be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The code belongs to another ShortLink, or to no ShortLink. The text says which, and what to do.
    Taken(String),
    /// The time of the link is over.
    Expired,
    /// The link was deleted.
    Deleted,
    /// A field is invalid: its name and the rule.
    Invalid(String),
}

const NOT_ADOPTED: &str =
    "exists and belongs to no ShortLink: set `adopt: IfSame`, because the destination is the same";
const OTHER_URL: &str =
    "exists with another destination, and a link is immutable: choose another code";
const TEMPLATE: &str = "is a link with arguments, which no ShortLink has: choose another code";
const TAKEN_DOWN: &str =
    "was disabled by management, and belongs to no ShortLink: enable it there first";

/// Decides what has to be done for a wish. `link` is what the code stands for, `None` if it is free.
pub fn decide(link: Option<&LinkRecord>, wish: &Wish, now: Timestamp) -> Decision {
    let is_over = wish.expires_at.is_some_and(|end| end <= now);
    let Some(link) = link else {
        return match &wish.broken_rule {
            _ if is_over => Decision::Refuse(Refusal::Expired),
            Some(rule) => Decision::Refuse(Refusal::Invalid(format!("url {rule}"))),
            None => Decision::Create,
        };
    };
    let (is_same, is_purged) = (link.url.as_ref() == Some(&wish.url), link.url.is_none());
    let is_claimed = match &link.owner {
        Some(owner) if owner.uid == wish.owner.uid => false,
        // The object was made again, by a restore of the cluster for example.
        Some(owner) if owner.is_named_like(&wish.owner) && (is_same || is_purged) => true,
        Some(owner) => return taken_by(owner, wish),
        None => true,
    };
    if link.state() == LinkState::Deleted {
        return Decision::Refuse(Refusal::Deleted);
    }
    if link.is_expired {
        return Decision::Refuse(Refusal::Expired);
    }
    if link.owner.is_none() {
        if let Some(reason) = obstacle(link, wish, is_same) {
            return Decision::Refuse(Refusal::Taken(format!("the code {} {reason}", wish.code)));
        }
        // A link is not taken over to end it.
        if is_over {
            return Decision::Refuse(Refusal::Expired);
        }
    }
    if !is_same {
        let rule = "url never changes: create another ShortLink, with another code";
        return Decision::Refuse(Refusal::Invalid(rule.to_owned()));
    }
    let changes = changes(link, wish);
    match is_claimed || !changes.is_empty() {
        true => Decision::Change {
            is_claimed,
            changes,
        },
        false => Decision::Keep,
    }
}

fn taken_by(owner: &Owner, wish: &Wish) -> Decision {
    let Owner {
        namespace, name, ..
    } = owner;
    let code = &wish.code;
    let taken = if owner.is_named_like(&wish.owner) {
        format!(
            "the code {code} belongs to an earlier ShortLink {namespace}/{name} with another destination: choose another code"
        )
    } else if *namespace == wish.owner.namespace {
        format!(
            "the code {code} belongs to ShortLink {namespace}/{name}: choose another code, or delete that ShortLink"
        )
    } else {
        // Its name is not the business of those who may not read it.
        format!("the code {code} belongs to a ShortLink of another namespace: choose another code")
    };
    Decision::Refuse(Refusal::Taken(taken))
}

/// Returns why a live or disabled link without an owner is not taken over, if it is not. A link that the same ShortLink
/// made or disabled, before it was deleted, is its own again.
fn obstacle(link: &LinkRecord, wish: &Wish, is_same: bool) -> Option<&'static str> {
    let name = wish.owner.actor();
    let by = |actor: &Option<String>| actor.as_ref() == Some(&name);
    let takedown = link.takedown.as_ref();
    let was_own = by(&link.created_by) || takedown.is_some_and(|down| by(&down.by));
    match link {
        link if link.template => Some(TEMPLATE),
        _ if !is_same => Some(OTHER_URL),
        // The ShortLink would lift the takedown, or its reasons when it is deleted.
        link if !decides(link) => Some(TAKEN_DOWN),
        _ if !wish.adopts && !was_own => Some(NOT_ADOPTED),
        _ => None,
    }
}

/// Returns the changes that make a link what was asked for. What management has disabled stays so.
fn changes(link: &LinkRecord, wish: &Wish) -> Vec<Change> {
    let decides = decides(link);
    let switch = match (&link.takedown, wish.enabled) {
        (Some(_), true) if decides => Some(Change::Enable),
        (None, false) => Some(Change::DISABLE),
        _ => None,
    };
    let (expiry, labels) = (&link.expires_at, &link.labels);
    // What has expired loses its destination, and could not be enabled any more.
    let edit = Edit {
        expiry: (decides && *expiry != wish.expires_at).then_some(wish.expires_at),
        labels: LabelChange {
            title: (labels.title != wish.title).then(|| wish.title.clone()),
            tags: (labels.tags != wish.tags).then(|| wish.tags.clone()),
            note: None,
        },
    };
    let edit = (edit != Edit::default()).then_some(Change::Edit(edit));
    switch.into_iter().chain(edit).collect()
}

/// Returns true if management has disabled a link that its ShortLink wants enabled.
pub fn is_taken_down(link: &LinkRecord, wish: &Wish) -> bool {
    wish.enabled && !decides(link)
}

/// Returns true if no takedown by management keeps a ShortLink from deciding what its link does.
pub(super) fn decides(link: &LinkRecord) -> bool {
    link.takedown.as_ref().is_none_or(by_short_link)
}

/// Returns true if a ShortLink took a link down, and not management. It need not be the one that has the link now.
pub fn by_short_link(takedown: &LinkTakedown) -> bool {
    takedown.by.as_deref().is_some_and(is_short_link)
}

impl Owner {
    fn is_named_like(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }
}

#[cfg(test)]
mod tests;
