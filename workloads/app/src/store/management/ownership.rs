//! Links that belong to ShortLinks: the owner of a link, and how a link becomes what its ShortLink asks for.
//!
//! [`decision`] decides, and this module writes. Each link has a transaction of its own, so what was done stays if a later
//! one fails, and a repeated request finds it done.

pub mod decision;

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use shortener_common::database::{StoreError, begin};
use sqlx::PgConnection;

use self::decision::{Decision, Refusal, Wish, decide, decides};
use super::{
    Management,
    change::{self, Change, ChangeVerdict},
    record::{LinkRecord, columns},
};
use crate::{
    store::{
        audit::{self, Action, Cause, NewEntry},
        labels::Labels,
        postgres::{NewLink, insert_one},
    },
    target,
};

const FIND_EACH: &str = concat!("SELECT ", columns!(), " FROM links WHERE code = ANY($1)");

const CLAIM: &str = "INSERT INTO link_owners (code, uid, namespace, name) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (code) DO UPDATE SET uid = excluded.uid, namespace = excluded.namespace, name = excluded.name";

const RELEASE: &str = "DELETE FROM link_owners WHERE code = $1";

/// The beginning of the name of a ShortLink where those of clients are kept.
pub const ACTOR: &str = "shortlink/";

/// The reason of a release, in the audit log.
const RELEASED: &str = "the ShortLink was deleted";

/// The ShortLink to which a link belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename = "ShortLink")]
pub struct Owner {
    /// The identity of the object: a later one may have the same name.
    #[serde(skip)]
    pub uid: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// The result of a [`Wish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The link was created.
    Created,
    /// The link was changed, or it changed hands.
    Changed,
    /// The link was as asked.
    Unchanged,
    /// The link is as asked, except that management has disabled it.
    TakenDown,
    Refused(Refusal),
}

/// What happens to the link of a ShortLink that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Disable,
    Delete,
    Retain,
}

/// What was written about one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new state of the link.
    pub link: LinkRecord,
    /// The kinds of changes, as in the audit log.
    pub actions: Vec<Action>,
    /// Who made them, and why.
    pub cause: Cause,
    /// True if the link is new.
    pub is_new: bool,
    /// True if those who follow the link notice a change.
    pub is_noticed: bool,
}

/// Returns true if this is the name of a ShortLink where those of clients are kept.
pub(super) fn is_short_link(actor: &str) -> bool {
    actor.starts_with(ACTOR)
}

impl Owner {
    /// Returns the owner that the columns of a link describe.
    pub(super) fn of_columns([uid, namespace, name]: [String; 3]) -> Self {
        Self {
            uid,
            namespace,
            name,
        }
    }

    /// Returns the name of the object where those of clients are kept.
    fn actor(&self) -> String {
        format!("{ACTOR}{}/{}", self.namespace, self.name)
    }

    /// Returns the cause of what is done for the object.
    fn cause(&self, reason: Option<&str>) -> Cause {
        Cause {
            by: self.actor(),
            reason: reason.map(str::to_owned),
        }
    }
}

impl Management {
    /// Reads the links behind these codes with one statement. Codes that were never assigned are missing.
    pub async fn find_each(
        &self,
        codes: &[&str],
    ) -> Result<HashMap<String, LinkRecord>, StoreError> {
        let links: Vec<LinkRecord> = self
            .0
            .look_up("SELECT links", |pool| async move {
                let find = sqlx::query_as(FIND_EACH).bind(codes);
                find.fetch_all(&pool).await
            })
            .await?;
        let by_code = |link: LinkRecord| (link.code.clone(), link);
        Ok(links.into_iter().map(by_code).collect())
    }

    /// Makes the link of a wish what was asked for. `known` is what the code stood for a moment ago, `None` if it was free. The
    /// link may have changed since then, so it is read again, locked, and decided upon again.
    ///
    /// # Errors
    /// Fails if the database is down. The changes may then have been made.
    pub async fn settle(
        &self,
        wish: &Wish,
        known: Option<&LinkRecord>,
        now: Timestamp,
    ) -> Result<(Applied, Option<Written>), StoreError> {
        let owner = known.and_then(|link| link.owner.as_ref());
        let was_own = owner.is_some_and(|owner| owner.uid == wish.owner.uid);
        self.0
            .run("UPDATE links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let is_new = known.is_none() && create(&mut transaction, wish, now).await?;
                if !is_new {
                    let lock = sqlx::query(change::LOCK).bind(&wish.code);
                    lock.execute(&mut *transaction).await?;
                }
                let link = change::find(&mut transaction, &wish.code).await?;
                let (is_claimed, changes) = match decide(Some(&link), wish, now) {
                    Decision::Refuse(refusal) => return Ok((Applied::Refused(refusal), None)),
                    // The object was deleted after it was asked for: nobody would release the link again.
                    Decision::Change {
                        is_claimed: true, ..
                    } if was_own => {
                        let refusal =
                            Refusal::Taken(format!("the code {} was released", wish.code));
                        return Ok((Applied::Refused(refusal), None));
                    }
                    Decision::Change {
                        is_claimed,
                        changes,
                    } => (is_claimed, changes),
                    Decision::Keep | Decision::Create if is_new => (false, Vec::new()),
                    Decision::Keep | Decision::Create => return Ok((Applied::Unchanged, None)),
                };
                if is_claimed {
                    claim(&mut transaction, &wish.code, &wish.owner).await?;
                }
                let begins = (is_new || is_claimed).then(|| {
                    let detail = json!({"adopted": !is_new});
                    entry(Action::LinkClaimed, &link, Some(detail))
                });
                let cause = wish.owner.cause(None);
                let mut written = write(&mut transaction, link, begins, &changes, cause).await?;
                transaction.commit().await?;
                written.is_new = is_new;
                let applied = match (is_new, written.link.is_expired) {
                    (true, _) => Applied::Created,
                    // The expiry was moved into the past.
                    (false, true) => Applied::Refused(Refusal::Expired),
                    (false, false) => Applied::Changed,
                };
                Ok((applied, Some(written)))
            })
            .await
    }

    /// Ends the ownership of a link, and does with the link what the policy says. Returns `None`, and changes nothing, if
    /// the object with this identity does not own it.
    ///
    /// # Errors
    /// Fails if the database is down. The changes may then have been made.
    pub async fn release(
        &self,
        code: &str,
        uid: &str,
        policy: Policy,
    ) -> Result<Option<Written>, StoreError> {
        self.0
            .run("UPDATE links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let lock = sqlx::query(change::LOCK).bind(code);
                if lock.fetch_optional(&mut *transaction).await?.is_none() {
                    return Ok(None);
                }
                let link = change::find(&mut transaction, code).await?;
                let Some(owner) = link.owner.as_ref().filter(|owner| owner.uid == uid) else {
                    return Ok(None);
                };
                let cause = owner.cause(Some(RELEASED));
                let release = sqlx::query(RELEASE).bind(code);
                release.execute(&mut *transaction).await?;
                let ends = entry(Action::LinkReleased, &link, None);
                let changes = Vec::from_iter(policy.change(&link));
                let written = write(&mut transaction, link, Some(ends), &changes, cause).await?;
                transaction.commit().await?;
                Ok(Some(written))
            })
            .await
    }
}

impl Policy {
    /// Returns the change of a link that is released; `None` if it stays as it is.
    fn change(self, link: &LinkRecord) -> Option<Change> {
        let change = match self {
            Self::Retain => return None,
            // What management has disabled stays as it is.
            _ if !decides(link) => return None,
            // It answers like a disabled link already.
            Self::Disable if link.is_expired => return None,
            Self::Disable => Change::DISABLE,
            Self::Delete => Change::Delete,
        };
        (change::verdict(&change, link) == ChangeVerdict::Allowed).then_some(change)
    }
}

/// Writes an entry about the owner, if there is one, makes the changes, and reads the link again.
async fn write(
    connection: &mut PgConnection,
    link: LinkRecord,
    about_owner: Option<NewEntry>,
    changes: &[Change],
    cause: Cause,
) -> Result<Written, sqlx::Error> {
    let mut actions = Vec::new();
    if let Some(entry) = &about_owner {
        audit::write(&mut *connection, &cause, entry).await?;
        actions.push(entry.action);
    }
    for change in changes {
        actions.extend(change::make(&mut *connection, &link, change, &cause).await?);
    }
    Ok(Written {
        link: change::find(connection, &link.code).await?,
        actions,
        cause,
        is_new: false,
        is_noticed: changes.iter().any(Change::affects_redirects),
    })
}

/// Inserts the link of a wish with its owner. Returns false if the code is not free any more.
async fn create(
    connection: &mut PgConnection,
    wish: &Wish,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let link = NewLink {
        url: wish.url.clone(),
        created_at: now,
        expires_at: wish.expires_at,
        created_by: Some(wish.owner.cause(None).by),
        labels: Labels {
            title: wish.title.clone(),
            tags: wish.tags.clone(),
            note: None,
        },
        ..NewLink::default()
    };
    let host = target::host(&link.url);
    let is_free = insert_one(&mut *connection, &link, host.as_deref(), &wish.code).await?;
    if is_free {
        claim(connection, &wish.code, &wish.owner).await?;
    }
    Ok(is_free)
}

async fn claim(
    connection: &mut PgConnection,
    code: &str,
    owner: &Owner,
) -> Result<(), sqlx::Error> {
    let claim = sqlx::query(CLAIM).bind(code).bind(&owner.uid);
    let claim = claim.bind(&owner.namespace).bind(&owner.name);
    claim.execute(connection).await.map(drop)
}

fn entry(action: Action, link: &LinkRecord, detail: Option<serde_json::Value>) -> NewEntry {
    NewEntry {
        action,
        subject: Some(link.code.clone()),
        detail,
    }
}
