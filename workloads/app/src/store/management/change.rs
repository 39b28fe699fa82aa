//! The changes of a link: which of them its state allows, and the statement for each.
//!
//! Every change that redirects show makes the link due for a second removal from the cache, because the replica may end
//! between the change and the first one. See [`crate::store::purge_sweeper`].

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde_json::json;
use shortener_common::database::{StoreError, begin};
use sqlx::PgConnection;

use super::{
    FIND, Management,
    ownership::{Owner, decision::by_short_link},
    record::{LinkRecord, LinkState},
};
use crate::{
    code::Code,
    rights::Rights,
    store::{
        audit::{self, Action, Cause, NewEntry},
        labels::{self, LabelChange},
    },
};

/// A change of a link. Its destination never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Takes the link down.
    Disable {
        /// True if that has legal reasons.
        legal: bool,
        /// The reason, for those who follow the link.
        notice: Option<String>,
    },
    /// Undoes a takedown.
    Enable,
    /// Changes the expiry time or the labels.
    Edit(Edit),
    /// Removes the destination for good. The code is never assigned again.
    Delete,
}

/// A change of what is not final in a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The expiry time, if it changes; the inner `None` if the link shall not expire.
    pub expiry: Option<Option<Timestamp>>,
    pub labels: LabelChange,
}

/// The result of a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The link was changed in these ways; this is its new state.
    Done(LinkRecord, Vec<Action>),
    /// The link was in that state already.
    Already(LinkRecord),
    /// The link has expired or was deleted, so nothing can be changed.
    Gone,
    /// The link belongs to this ShortLink, which alone makes such a change.
    Owned(Owner),
    /// The rights of the client do not include the change.
    Foreign,
    /// The code was never assigned.
    Unknown,
}

/// The verdict on a change before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChangeVerdict {
    Allowed,
    Needless,
    Refused,
    /// The link belongs to this ShortLink, which alone makes such a change.
    Owned(Owner),
    /// The rights of the client do not include the change.
    Foreign,
}

/// Waits for other changes of the link. A statement that waits may read of other tables what they were before.
pub(super) const LOCK: &str = "SELECT FROM links WHERE code = $1 FOR UPDATE";

macro_rules! update {
    ($assignments:literal) => {
        concat!(
            "UPDATE links SET ",
            $assignments,
            // The transaction may have waited for the link.
            ", purge_due_at = clock_timestamp() + interval '6 seconds' WHERE code = $1"
        )
    };
}

const DISABLE: &str = update!(
    "disabled_url = coalesce(url, disabled_url), url = NULL, disabled_at = now(), disabled_as = $2, \
    disabled_by = $3, reason = $4, notice = $5"
);

const ENABLE: &str = update!(
    "url = disabled_url, disabled_url = NULL, disabled_at = NULL, disabled_as = NULL, \
    disabled_by = NULL, reason = NULL, notice = NULL"
);

const EXPIRE: &str = update!("expires_at = $2");

/// The host is part of the destination, and goes with it.
const DELETE: &str = update!(
    "url = NULL, disabled_url = NULL, host = NULL, disabled_at = now(), disabled_as = 'deleted', \
    disabled_by = $2, reason = coalesce($3, reason), notice = NULL"
);

impl Change {
    /// A takedown without more words.
    pub const DISABLE: Self = Self::Disable {
        legal: false,
        notice: None,
    };

    /// Returns what the audit log keeps of the change of this link: an entry for each kind.
    pub fn entries(&self, link: &LinkRecord) -> Vec<NewEntry> {
        let entry = |action, detail| NewEntry {
            action,
            subject: Some(link.code.clone()),
            detail,
        };
        match self {
            Self::Disable { legal, notice } => {
                let detail = json!({"legal": legal, "notice": notice});
                vec![entry(Action::LinkDisabled, Some(detail))]
            }
            Self::Enable => vec![entry(Action::LinkEnabled, None)],
            Self::Delete => vec![entry(Action::LinkDeleted, None)],
            Self::Edit(Edit { expiry, labels }) => {
                let detail = |end: &Option<Timestamp>| json!({"expires_at": end, "previous_expires_at": link.expires_at});
                let expiry = expiry.as_ref();
                let expiry = expiry.map(|end| entry(Action::LinkExpiryChanged, Some(detail(end))));
                // A note may be about a person, so the log has the names of fields only.
                let fields = link.labels.differences(&link.labels.changed(labels));
                let detail = (!fields.is_empty()).then(|| json!({"fields": fields}));
                let labels = detail.map(|detail| entry(Action::LinkLabelsChanged, Some(detail)));
                expiry.into_iter().chain(labels).collect()
            }
        }
    }

    /// Returns true if those who follow the link notice the change.
    pub fn affects_redirects(&self) -> bool {
        !matches!(self, Self::Edit(edit) if edit.expiry.is_none())
    }
}

impl Management {
    /// Changes a link, if the rights include it, and its state and the ShortLink to which it may belong allow it. The audit
    /// log gets its entries in the same transaction.
    ///
    /// # Errors
    /// Fails if the database is down. The change may then have been made.
    pub async fn change(
        &self,
        code: Code<'_>,
        change: &Change,
        cause: &Cause,
        rights: &Rights,
    ) -> Result<Changed, StoreError> {
        self.0
            .run("UPDATE links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let lock = sqlx::query(LOCK).bind(code.as_str());
                if lock.fetch_optional(&mut *transaction).await?.is_none() {
                    return Ok(Changed::Unknown);
                }
                let link = find(&mut transaction, code.as_str()).await?;
                match verdict_of_management(change, &link, &cause.by, rights) {
                    ChangeVerdict::Needless => Ok(Changed::Already(link)),
                    ChangeVerdict::Refused => Ok(Changed::Gone),
                    ChangeVerdict::Owned(owner) => Ok(Changed::Owned(owner)),
                    ChangeVerdict::Foreign => Ok(Changed::Foreign),
                    ChangeVerdict::Allowed => {
                        let actions = make(&mut transaction, &link, change, cause).await?;
                        let link = find(&mut transaction, code.as_str()).await?;
                        transaction.commit().await?;
                        Ok(Changed::Done(link, actions))
                    }
                }
            })
            .await
    }
}

/// Reads a link that exists.
pub(super) async fn find(
    connection: &mut PgConnection,
    code: &str,
) -> Result<LinkRecord, sqlx::Error> {
    let find = sqlx::query_as(FIND).bind(code);
    find.fetch_one(connection).await
}

/// Decides about a change that a client asks for.
///
/// A link belongs to its ShortLink or to its creator, and neither undoes a takedown by others. A ShortLink alone makes all
/// other changes of its link.
fn verdict_of_management(
    change: &Change,
    link: &LinkRecord,
    by: &str,
    rights: &Rights,
) -> ChangeVerdict {
    let down = link.takedown.as_ref();
    let down = down.filter(|_| link.state() == LinkState::Disabled);
    let is_down_by_others = down.is_some_and(|down| down.by.as_deref() != Some(by));
    let is_down_by_owner = down.is_some_and(|down| {
        let is_by_creator = down.by.is_some() && down.by == link.created_by;
        // A ShortLink that is made again gets back what it has disabled.
        by_short_link(down) || (link.owner.is_none() && is_by_creator)
    });
    // What has expired loses its destination.
    let expires = |edit: &Edit| edit.expiry.is_some();
    let undoes = match change {
        Change::Enable | Change::Delete => true,
        Change::Edit(edit) => expires(edit),
        Change::Disable { .. } => false,
    };
    match (change, &link.owner) {
        _ if !rights.include(link.created_by.as_deref()) => ChangeVerdict::Foreign,
        _ if rights.owner().is_some() && undoes && is_down_by_others => ChangeVerdict::Foreign,
        (_, Some(owner)) if rights.owner().is_some() => ChangeVerdict::Owned(owner.clone()),
        // Otherwise the owner could undo it.
        (Change::Disable { .. }, _) if is_down_by_owner && is_down_by_others => {
            ChangeVerdict::Allowed
        }
        (Change::Disable { .. }, _) | (_, None) => verdict(change, link),
        (Change::Enable, Some(_)) if !is_down_by_owner => verdict(change, link),
        (_, Some(owner)) => ChangeVerdict::Owned(owner.clone()),
    }
}

/// Expiry is final, whether the destination was purged since or not. A takedown of an expired link is still possible
/// before: there may be legal reasons to tell. Its labels last as long as its destination, which they describe.
pub(super) fn verdict(change: &Change, link: &LinkRecord) -> ChangeVerdict {
    let has_url = link.url.is_some();
    match (change, link.state()) {
        (Change::Delete, LinkState::Deleted) => ChangeVerdict::Needless,
        (Change::Delete, _) => ChangeVerdict::Allowed,
        (_, LinkState::Deleted) => ChangeVerdict::Refused,
        (Change::Disable { .. }, LinkState::Disabled) => ChangeVerdict::Needless,
        (Change::Disable { .. }, _) if has_url => ChangeVerdict::Allowed,
        (Change::Enable, LinkState::Disabled) if has_url => ChangeVerdict::Allowed,
        (Change::Enable, LinkState::Live | LinkState::Expired) => ChangeVerdict::Needless,
        (Change::Edit(edit), _) if edit.expiry.is_some() && link.is_expired => {
            ChangeVerdict::Refused
        }
        (Change::Edit(_), _) if has_url => match change.entries(link).is_empty() {
            true => ChangeVerdict::Needless,
            false => ChangeVerdict::Allowed,
        },
        _ => ChangeVerdict::Refused,
    }
}

/// Makes a change that the state of the link allows, and writes its entries. Returns their actions.
pub(super) async fn make(
    connection: &mut PgConnection,
    link: &LinkRecord,
    change: &Change,
    cause: &Cause,
) -> Result<Vec<Action>, sqlx::Error> {
    write(&mut *connection, link, change, cause).await?;
    let mut actions = Vec::new();
    for entry in change.entries(link) {
        audit::write(&mut *connection, cause, &entry).await?;
        actions.push(entry.action);
    }
    Ok(actions)
}

async fn write(
    connection: &mut PgConnection,
    link: &LinkRecord,
    change: &Change,
    cause: &Cause,
) -> Result<(), sqlx::Error> {
    let (code, by) = (link.code.as_str(), cause.by.as_str());
    let reason = cause.reason.as_deref();
    let statement = match change {
        Change::Disable { legal, notice } => {
            let how = if *legal { "legal" } else { "gone" };
            let disable = sqlx::query(DISABLE).bind(code).bind(how).bind(by);
            disable.bind(reason).bind(notice.as_deref())
        }
        Change::Enable => sqlx::query(ENABLE).bind(code),
        Change::Edit(Edit { expiry, labels }) => {
            let labels = link.labels.changed(labels);
            if labels != link.labels {
                labels::replace(&mut *connection, code, &labels).await?;
            }
            let Some(end) = expiry else {
                return Ok(());
            };
            sqlx::query(EXPIRE)
                .bind(code)
                .bind(end.map(ToSqlx::to_sqlx))
        }
        Change::Delete => sqlx::query(DELETE).bind(code).bind(by).bind(reason),
    };
    statement.execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::{ChangeVerdict::*, *};
    use crate::store::{
        labels::Labels,
        management::{How, LinkTakedown},
    };

    fn link(url: bool, is_expired: bool, how: Option<How>) -> LinkRecord {
        LinkRecord {
            code: "a".to_owned(),
            url: url.then(|| "https://example.com/".to_owned()),
            template: false,
            host: None,
            created_by: None,
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: is_expired.then_some(Timestamp::UNIX_EPOCH),
            is_expired,
            labels: Labels::default(),
            owner: None,
            takedown: how.map(|how| LinkTakedown {
                at: Timestamp::UNIX_EPOCH,
                by: None,
                how,
                reason: None,
                notice: None,
            }),
        }
    }

    #[test]
    fn the_state_of_a_link_decides_which_changes_are_allowed() {
        let disable = Change::Disable {
            legal: false,
            notice: None,
        };
        let expire = Edit {
            expiry: Some(None),
            ..Edit::default()
        };
        let label = Edit {
            labels: LabelChange {
                note: Some(Some("a".to_owned())),
                ..LabelChange::default()
            },
            ..Edit::default()
        };
        let changes = [
            disable,
            Change::Enable,
            Change::Edit(expire),
            Change::Edit(label),
            Change::Delete,
        ];
        for (link, verdicts) in [
            (
                link(true, false, None),
                [Allowed, Needless, Allowed, Allowed, Allowed],
            ),
            (
                link(true, true, None),
                [Allowed, Needless, Refused, Allowed, Allowed],
            ),
            (
                link(false, true, None),
                [Refused, Needless, Refused, Refused, Allowed],
            ),
            (
                link(true, false, Some(How::Legal)),
                [Needless, Allowed, Allowed, Allowed, Allowed],
            ),
            (
                link(true, true, Some(How::Gone)),
                [Needless, Allowed, Refused, Allowed, Allowed],
            ),
            (
                link(false, true, Some(How::Gone)),
                [Needless, Refused, Refused, Refused, Allowed],
            ),
            (
                link(false, false, Some(How::Deleted)),
                [Refused, Refused, Refused, Refused, Needless],
            ),
        ] {
            let found = changes.each_ref().map(|change| verdict(change, &link));
            assert_eq!(found, verdicts, "{link:?}");
        }
    }

    #[test]
    fn an_edit_has_an_entry_for_each_part_and_is_needless_without_a_difference() {
        let mut link = link(true, false, None);
        link.labels.tags = vec!["a".to_owned()];
        let edit = |expiry, tags: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let labels = LabelChange {
                tags: Some(tags),
                ..LabelChange::default()
            };
            Change::Edit(Edit { expiry, labels })
        };
        let both = edit(Some(None), &["b"]);
        let entries = both.entries(&link);
        let actions: Vec<Action> = entries.iter().map(|entry| entry.action).collect();
        assert_eq!(
            actions,
            [Action::LinkExpiryChanged, Action::LinkLabelsChanged]
        );
        assert_eq!(entries[1].detail, Some(json!({"fields": ["tags"]})));
        assert!(both.affects_redirects());
        let same = edit(None, &["a"]);
        assert_eq!(verdict(&same, &link), Needless);
        assert!(!same.affects_redirects());
    }

    #[test]
    fn a_link_of_a_shortlink_is_taken_down_and_what_that_did_is_undone_and_no_more() {
        let owner = Owner {
            uid: "1".to_owned(),
            namespace: "team".to_owned(),
            name: "sale".to_owned(),
        };
        let of_owner = |how, by: &str| {
            let mut link = link(true, false, how);
            link.owner = Some(owner.clone());
            if let Some(down) = &mut link.takedown {
                down.by = Some(by.to_owned());
            }
            link
        };
        let own = "shortlink/team/sale";
        let owned = Owned(owner.clone());
        for (link, disable, enable) in [
            (of_owner(None, ""), &Allowed, &Needless),
            (of_owner(Some(How::Gone), own), &Allowed, &owned),
            (of_owner(Some(How::Legal), "ann"), &Needless, &Allowed),
        ] {
            let all = Rights::Everything;
            let found = |change| verdict_of_management(&change, &link, "ops", &all);
            assert_eq!(found(Change::DISABLE), *disable, "{link:?}");
            assert_eq!(found(Change::Enable), *enable, "{link:?}");
            assert_eq!(found(Change::Delete), owned);
            assert_eq!(found(Change::Edit(Edit::default())), owned);
        }
    }

    #[test]
    fn a_client_with_own_links_undoes_no_takedown_by_others() {
        let own = Rights::Own("shop".into());
        let of_shop = |by: Option<&str>| {
            let mut link = link(true, false, by.map(|_| How::Gone));
            link.created_by = Some("shop".to_owned());
            if let Some(down) = &mut link.takedown {
                down.by = by.map(str::to_owned);
            }
            link
        };
        let note = || {
            Change::Edit(Edit {
                labels: LabelChange {
                    note: Some(Some("a".to_owned())),
                    ..LabelChange::default()
                },
                ..Edit::default()
            })
        };
        for (link, verdicts) in [
            (of_shop(None), [Allowed, Needless, Allowed, Allowed]),
            (of_shop(Some("shop")), [Needless, Allowed, Allowed, Allowed]),
            (of_shop(Some("ops")), [Needless, Foreign, Foreign, Allowed]),
        ] {
            let changes = [Change::DISABLE, Change::Enable, Change::Delete, note()];
            let found = changes.map(|change| verdict_of_management(&change, &link, "shop", &own));
            assert_eq!(found, verdicts, "{link:?}");
        }
        // Those who manage all links take the takedown over, so that the creator cannot undo it.
        let again = |by: &str| {
            let link = of_shop(Some(by));
            verdict_of_management(&Change::DISABLE, &link, "ops", &Rights::Everything)
        };
        assert_eq!([again("shop"), again("ops")], [Allowed, Needless]);
        assert_eq!(again("shortlink/team/sale"), Allowed);
        let expire = Change::Edit(Edit {
            expiry: Some(Some(Timestamp::UNIX_EPOCH)),
            ..Edit::default()
        });
        let of_own = |link| verdict_of_management(&expire, &link, "shop", &own);
        assert_eq!(of_own(of_shop(Some("ops"))), Foreign);
        assert_eq!(of_own(of_shop(Some("shop"))), Allowed);
        // Its link belongs to a ShortLink now.
        let owner = Owner::default();
        let adopted = LinkRecord {
            owner: Some(owner.clone()),
            ..of_shop(None)
        };
        let found = verdict_of_management(&Change::DISABLE, &adopted, "shop", &own);
        assert_eq!(found, Owned(owner));
    }
}
