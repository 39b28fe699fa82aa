//! The changes of a link: which of them its state allows, and the statement for each.
//!
//! Every change makes the link due for a second removal from the cache, because the replica may end between the change and
//! the first one. See [`crate::store::purge_sweeper`].

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde_json::{Value, json};
use shortener_common::database::StoreError;
use sqlx::PgConnection;

use super::{
    Management,
    record::{LinkRecord, LinkRow, LinkState, columns},
};
use crate::{
    code::Code,
    store::{
        audit::{self, Action, Cause, NewEntry},
        clicks,
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
    /// Sets the expiry time; `None` if the link shall not expire.
    Expire(Option<Timestamp>),
    /// Removes the destination for good. The code is never assigned again.
    Delete,
}

/// The result of a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The link was changed; this is its new state.
    Done(LinkRecord),
    /// The link was in that state already.
    Already(LinkRecord),
    /// The link has expired or was deleted, so nothing can be changed.
    Gone,
    /// The code was never assigned.
    Unknown,
}

/// The verdict on a change before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeVerdict {
    Allowed,
    Needless,
    Refused,
}

const LOCK: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM links WHERE code = $1 FOR UPDATE"
);

macro_rules! update {
    ($assignments:literal) => {
        concat!(
            "UPDATE links SET ",
            $assignments,
            ", purge_due_at = now() + interval '6 seconds' WHERE code = $1 RETURNING ",
            columns!()
        )
    };
}

const DISABLE: &str = update!(
    "disabled_url = url, url = NULL, disabled_at = now(), disabled_as = $2, \
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
    /// Returns the kind of the change.
    #[must_use]
    pub fn action(&self) -> Action {
        match self {
            Self::Disable { .. } => Action::LinkDisabled,
            Self::Enable => Action::LinkEnabled,
            Self::Expire(_) => Action::LinkExpiryChanged,
            Self::Delete => Action::LinkDeleted,
        }
    }

    /// Returns what the audit log keeps of the change of this link beside its kind.
    fn detail(&self, link: &LinkRecord) -> Option<Value> {
        match self {
            Self::Disable { legal, notice } => Some(json!({"legal": legal, "notice": notice})),
            Self::Expire(end) => {
                Some(json!({"expires_at": end, "previous_expires_at": link.expires_at}))
            }
            Self::Enable | Self::Delete => None,
        }
    }
}

impl Management {
    /// Changes a link, if its state allows it. The audit log gets an entry in the same transaction.
    ///
    /// # Errors
    /// Fails if the database is down. The change may then have been made.
    pub async fn change(
        &self,
        code: Code<'_>,
        change: &Change,
        cause: &Cause,
    ) -> Result<Changed, StoreError> {
        self.0
            .run("UPDATE links", |pool| async move {
                let mut transaction = pool.begin().await?;
                if *change == Change::Delete {
                    clicks::lock_batches(&mut transaction).await?;
                }
                let row: Option<LinkRow> = sqlx::query_as(LOCK)
                    .bind(code.as_str())
                    .fetch_optional(&mut *transaction)
                    .await?;
                let Some(row) = row else {
                    return Ok(Changed::Unknown);
                };
                let link = LinkRecord::try_from(row)?;
                match verdict(change, &link) {
                    ChangeVerdict::Needless => Ok(Changed::Already(link)),
                    ChangeVerdict::Refused => Ok(Changed::Gone),
                    ChangeVerdict::Allowed => {
                        let entry = NewEntry {
                            action: change.action(),
                            subject: Some(link.code.clone()),
                            detail: change.detail(&link),
                        };
                        let row = write(&mut transaction, code, change, cause).await?;
                        audit::write(&mut *transaction, cause, &entry).await?;
                        let link = LinkRecord::try_from(row)?;
                        transaction.commit().await?;
                        Ok(Changed::Done(link))
                    }
                }
            })
            .await
    }
}

/// Expiry is final, whether the destination was purged since or not. A takedown of an expired link is still possible
/// before: there may be legal reasons to tell.
fn verdict(change: &Change, link: &LinkRecord) -> ChangeVerdict {
    let has_url = link.url.is_some();
    match (change, link.state()) {
        (Change::Delete, LinkState::Deleted) => ChangeVerdict::Needless,
        (Change::Delete, _) => ChangeVerdict::Allowed,
        (_, LinkState::Deleted) => ChangeVerdict::Refused,
        (Change::Disable { .. }, LinkState::Disabled) => ChangeVerdict::Needless,
        (Change::Disable { .. }, _) if has_url => ChangeVerdict::Allowed,
        (Change::Enable, LinkState::Disabled) if has_url => ChangeVerdict::Allowed,
        (Change::Enable, LinkState::Live | LinkState::Expired) => ChangeVerdict::Needless,
        (Change::Expire(_), _) if has_url && !link.is_expired => ChangeVerdict::Allowed,
        _ => ChangeVerdict::Refused,
    }
}

async fn write(
    connection: &mut PgConnection,
    code: Code<'_>,
    change: &Change,
    cause: &Cause,
) -> Result<LinkRow, sqlx::Error> {
    let (text, by) = (code.as_str(), cause.by.as_str());
    let reason = cause.reason.as_deref();
    match change {
        Change::Disable { legal, notice } => {
            let how = if *legal { "legal" } else { "gone" };
            let disable = sqlx::query_as(DISABLE).bind(text).bind(how).bind(by);
            let disable = disable.bind(reason).bind(notice.as_deref());
            disable.fetch_one(connection).await
        }
        Change::Enable => {
            sqlx::query_as(ENABLE)
                .bind(text)
                .fetch_one(connection)
                .await
        }
        Change::Expire(end) => {
            let end = end.map(ToSqlx::to_sqlx);
            let expire = sqlx::query_as(EXPIRE).bind(text).bind(end);
            expire.fetch_one(connection).await
        }
        Change::Delete => {
            clicks::remove(connection, code).await?;
            let delete = sqlx::query_as(DELETE).bind(text).bind(by).bind(reason);
            delete.fetch_one(connection).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeVerdict::*, *};
    use crate::store::management::{How, LinkTakedown};

    fn link(url: bool, is_expired: bool, how: Option<How>) -> LinkRecord {
        LinkRecord {
            code: "a".to_owned(),
            url: url.then(|| "https://example.com/".to_owned()),
            host: None,
            created_by: None,
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: is_expired.then_some(Timestamp::UNIX_EPOCH),
            is_expired,
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
        let changes = [
            disable,
            Change::Enable,
            Change::Expire(None),
            Change::Delete,
        ];
        for (link, verdicts) in [
            (
                link(true, false, None),
                [Allowed, Needless, Allowed, Allowed],
            ),
            (
                link(true, true, None),
                [Allowed, Needless, Refused, Allowed],
            ),
            (
                link(false, true, None),
                [Refused, Needless, Refused, Allowed],
            ),
            (
                link(true, false, Some(How::Legal)),
                [Needless, Allowed, Allowed, Allowed],
            ),
            (
                link(true, true, Some(How::Gone)),
                [Needless, Allowed, Refused, Allowed],
            ),
            (
                link(false, true, Some(How::Gone)),
                [Needless, Refused, Refused, Allowed],
            ),
            (
                link(false, false, Some(How::Deleted)),
                [Refused, Refused, Refused, Needless],
            ),
        ] {
            let found = changes.each_ref().map(|change| verdict(change, &link));
            assert_eq!(found, verdicts, "{link:?}");
        }
    }
}
