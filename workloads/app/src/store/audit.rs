//! The audit log in PostgreSQL: changes by management, each with its client, time and reason.

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Time, ToSqlx};
use serde::Serialize;
use serde_json::Value;
use shortener_common::database::{Database, StoreError};
use sqlx::PgExecutor;

const WRITE: &str = "INSERT INTO audit_log (actor, action, subject, reason, detail) \
    VALUES ($1, $2, $3, $4, $5::json)";

const LIST: &str = "SELECT id, at, actor, action, subject, reason, detail::text FROM audit_log \
    WHERE ($1::text IS NULL OR subject = $1) AND ($2::text IS NULL OR actor = $2) \
    AND ($3::text IS NULL OR action = $3) AND ($4::timestamptz IS NULL OR at >= $4) \
    AND ($5::timestamptz IS NULL OR at < $5) AND ($6::bigint IS NULL OR id < $6) ORDER BY id DESC LIMIT $7";

/// Who makes a change, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The client, `pod/` and the pod in which a program was run, or `shortlink/` with the namespace and the name of a
    /// ShortLink. No client has such a name.
    pub by: String,
    /// The reason, for the operators of the service.
    pub reason: Option<String>,
}

shortener_common::words! {
    /// A kind of change, with the word for it in the table, in queries and in answers, which is the event of the log line as
    /// well.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        LinkDisabled = "link_disabled",
        LinkEnabled = "link_enabled",
        LinkExpiryChanged = "link_expiry_changed",
        LinkLabelsChanged = "link_labels_changed",
        LinkDeleted = "link_deleted",
        LinkClaimed = "link_claimed",
        LinkReleased = "link_released",
        LinkTransferred = "link_transferred",
        LinksImported = "links_imported",
        ClientErased = "client_erased",
        DeadLetterReplayed = "dead_letter_replayed",
        DeadLetterDropped = "dead_letter_dropped",
        WebhookRetried = "webhook_retried",
    }
}

/// An entry before it is written: what is done to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    pub action: Action,
    /// The code of the link, or the identifier of the job; `None` if there are many.
    pub subject: Option<String>,
    /// An object with what the action alone does not say.
    pub detail: Option<Value>,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Number of the entry. Later entries have higher ones.
    pub id: i64,
    /// Time of the change (RFC 3339).
    pub at: Timestamp,
    /// Client that made it, `pod/` and the pod in which a program was run, or `shortlink/` with the namespace and the name of
    /// a ShortLink.
    pub by: String,
    /// Kind of change.
    pub action: String,
    /// Code of the link, or identifier of the job; null for an import, for an erasure and for a message that never was a job.
    pub subject: Option<String>,
    /// Reason, if one was given.
    pub reason: Option<String>,
    /// What the action alone does not say; null if there is nothing.
    pub detail: Option<Value>,
}

/// A choice of entries. What is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub subject: Option<String>,
    pub by: Option<String>,
    pub action: Option<Action>,
    /// The first moment.
    pub since: Option<Timestamp>,
    /// The moment after the last one.
    pub until: Option<Timestamp>,
    /// The last entry of the page before.
    pub after: Option<i64>,
    /// The maximum number of entries on a page.
    pub limit: usize,
}

/// A page of entries, the latest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditPage {
    /// Entries, the latest first.
    pub entries: Vec<AuditEntry>,
    /// The value of `after` for the next page, as a string; null on the last one.
    pub next: Option<String>,
}

type EntryRow = (
    i64,
    Time,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// The audit log of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit(Database);

impl Audit {
    /// Returns the audit log in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Writes an entry.
    pub async fn write(&self, cause: &Cause, entry: &NewEntry) -> Result<(), StoreError> {
        self.0
            .run("INSERT audit_log", |pool| async move {
                write(&pool, cause, entry).await
            })
            .await
    }

    /// Returns a page of entries, the latest first.
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.0
            .run("SELECT audit_log", |pool| async move {
                let list = sqlx::query_as(LIST)
                    .bind(query.subject.as_deref())
                    .bind(query.by.as_deref())
                    .bind(query.action.map(Action::as_str))
                    .bind(query.since.map(ToSqlx::to_sqlx))
                    .bind(query.until.map(ToSqlx::to_sqlx))
                    .bind(query.after)
                    // One more shows that there is another page.
                    .bind(query.limit as i64 + 1);
                let rows: Vec<EntryRow> = list.fetch_all(&pool).await?;
                let has_more = rows.len() > query.limit;
                let entries = rows.into_iter().take(query.limit).map(read);
                let entries: Vec<AuditEntry> = entries.collect::<Result<_, _>>()?;
                let last = entries.last().filter(|_| has_more);
                let next = last.map(|entry| entry.id.to_string());
                Ok(AuditPage { entries, next })
            })
            .await
    }
}

/// Writes an entry by this connection, which may be in the transaction of the change.
pub(in crate::store) async fn write(
    executor: impl PgExecutor<'_>,
    cause: &Cause,
    entry: &NewEntry,
) -> Result<(), sqlx::Error> {
    let write = sqlx::query(WRITE)
        .bind(cause.by.as_str())
        .bind(entry.action.as_str())
        .bind(entry.subject.as_deref())
        .bind(cause.reason.as_deref())
        .bind(entry.detail.as_ref().map(Value::to_string));
    write.execute(executor).await.map(drop)
}

fn read(row: EntryRow) -> Result<AuditEntry, sqlx::Error> {
    let (id, at, by, action, subject, reason, detail) = row;
    let detail = detail.map(|text| serde_json::from_str(&text)).transpose();
    Ok(AuditEntry {
        id,
        at: at.to_jiff(),
        by,
        action,
        subject,
        reason,
        detail: detail.map_err(|error| sqlx::Error::Decode(error.into()))?,
    })
}
