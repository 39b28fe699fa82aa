//! Links in PostgreSQL. Every query is prepared once per connection.

mod lookup;
mod once;

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Time, ToSqlx};
use shortener_common::database::{Database, StoreError, begin};
use sqlx::{PgExecutor, PgPool};

pub use self::once::RequestKey;
use super::{
    Link,
    labels::{Labels, write_labels},
    management::Management,
};
use crate::{code::CodeSpace, target};

macro_rules! insert {
    () => {
        "INSERT INTO links (code, url, created_at, expires_at, host, created_by, is_template) \
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (code) DO NOTHING"
    };
}

const INSERT: &str = insert!();

/// Inserts a link with its labels.
const INSERT_LABELED: &str = concat!(
    "WITH link AS (",
    insert!(),
    " RETURNING code, created_at), ",
    write_labels!("$8::text", "$9::text", "$10::text[]", "$11::text[]")
);

/// Selects the oldest link, so that the result does not depend on the query plan; if a code was chosen, only the link with
/// that code.
const FIND_LASTING: &str = "SELECT code, created_at FROM links \
    WHERE hashtextextended(url, 0) = hashtextextended($1, 0) AND url = $1 AND expires_at IS NULL \
    AND ($2::text IS NULL OR code = $2) AND is_template = $3 ORDER BY created_at LIMIT 1";

/// Held until the end of the transaction, so that of two concurrent requests for one URL, the second finds the link
/// of the first.
const LOCK_URL: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

/// The links of one stack; cheap to clone.
#[derive(Clone)]
pub struct Links {
    database: Database,
    space: CodeSpace,
}

/// A link to be created.
#[derive(Clone, Debug, Default)]
pub struct NewLink {
    /// The code that the client chose.
    pub code: Option<String>,
    /// The destination, already checked.
    pub url: String,
    /// True if the destination is a template.
    pub template: bool,
    /// The creation time, in whole microseconds.
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// The client that creates the link; `None` without a key.
    pub created_by: Option<String>,
    pub labels: Labels,
    /// True if an existing link to the same destination without expiry may be returned.
    pub reuse: bool,
    /// The host of the short URL in the response, which is not stored; `None` for that of the public URL.
    pub host: Option<String>,
    /// The key under which repeated requests are one; `None` if each creates a link.
    pub once: Option<RequestKey>,
}

/// The result of creating a [`NewLink`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A link was stored.
    Created(Link),
    /// A link to the same destination without expiry exists.
    Reused(Link),
    /// The chosen code belongs to another link, or no free code was found.
    Taken,
    /// An earlier request with this key has stored the link, or found the one to reuse.
    Repeated(Link),
    /// The key was used with another body before.
    OtherBody,
}

impl Links {
    /// Returns the links of this database, with generated codes out of this space.
    pub fn new(database: Database, space: CodeSpace) -> Self {
        Self { database, space }
    }

    /// Returns the database.
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the management of the same links.
    pub fn management(&self) -> Management {
        Management::new(self.database.clone())
    }

    /// Stores a link, or finds the one to reuse. On success the link is durable.
    ///
    /// # Errors
    /// Fails if the database is down. The link may then exist, but its code was not returned to any client.
    pub async fn create(&self, link: &NewLink) -> Result<Outcome, StoreError> {
        if let Some(once) = &link.once {
            return self
                .database
                .run("INSERT link_keys", |pool| {
                    self.create_once(pool, link, once)
                })
                .await;
        }
        self.database
            .run("INSERT links", |pool| async move {
                // A request for a link that expires must not get one that does not.
                if !link.reuse || link.expires_at.is_some() {
                    return self.insert(&mut *pool.acquire().await?, link).await;
                }
                // Most requests find the link, and then without a lock.
                match find_lasting(&pool, link).await? {
                    Some(outcome) => Ok(outcome),
                    None => self.create_unless_known(pool, link).await,
                }
            })
            .await
    }

    async fn create_unless_known(
        &self,
        pool: PgPool,
        link: &NewLink,
    ) -> Result<Outcome, sqlx::Error> {
        let mut transaction = begin(&pool).await?;
        let outcome = self.find_or_insert(&mut transaction, link).await?;
        transaction.commit().await?;
        Ok(outcome)
    }

    async fn find_or_insert(
        &self,
        connection: &mut sqlx::PgConnection,
        link: &NewLink,
    ) -> Result<Outcome, sqlx::Error> {
        sqlx::query(LOCK_URL)
            .bind(&link.url)
            .execute(&mut *connection)
            .await?;
        match find_lasting(&mut *connection, link).await? {
            Some(outcome) => Ok(outcome),
            None => self.insert(connection, link).await,
        }
    }

    async fn insert(
        &self,
        connection: &mut sqlx::PgConnection,
        link: &NewLink,
    ) -> Result<Outcome, sqlx::Error> {
        let host = target::host(&link.url);
        let host = host.as_deref();
        if let Some(code) = &link.code {
            return Ok(match insert_one(connection, link, host, code).await? {
                true => Outcome::Created(stored(link, code.clone(), link.created_at)),
                false => Outcome::Taken,
            });
        }
        for length in self.space.lengths() {
            let code = self.space.generate(length, &mut rand::rng());
            if insert_one(connection, link, host, &code).await? {
                return Ok(Outcome::Created(stored(link, code, link.created_at)));
            }
        }
        Ok(Outcome::Taken)
    }
}

/// Inserts a link. Returns true if the code was free.
pub(super) async fn insert_one(
    connection: &mut sqlx::PgConnection,
    link: &NewLink,
    host: Option<&str>,
    code: &str,
) -> Result<bool, sqlx::Error> {
    let statement = match link.labels.is_empty() {
        true => INSERT,
        false => INSERT_LABELED,
    };
    let insert = sqlx::query(statement)
        .bind(code)
        .bind(&link.url)
        .bind(link.created_at.to_sqlx())
        .bind(link.expires_at.map(ToSqlx::to_sqlx))
        .bind(host)
        .bind(link.created_by.as_deref())
        .bind(link.template);
    let insert = match link.labels.is_empty() {
        true => insert,
        false => link.labels.bind(insert),
    };
    Ok(insert.execute(connection).await?.rows_affected() == 1)
}

/// Finds the link to the same destination without expiry; if a code was chosen, only the link with that code.
async fn find_lasting(
    executor: impl PgExecutor<'_>,
    link: &NewLink,
) -> Result<Option<Outcome>, sqlx::Error> {
    let row: Option<(String, Time)> = sqlx::query_as(FIND_LASTING)
        .bind(&link.url)
        .bind(link.code.as_deref())
        .bind(link.template)
        .fetch_optional(executor)
        .await?;
    Ok(row.map(|(code, created_at)| Outcome::Reused(stored(link, code, created_at.to_jiff()))))
}

fn stored(link: &NewLink, code: String, created_at: Timestamp) -> Link {
    Link {
        code,
        url: link.url.clone(),
        template: link.template,
        created_at,
        expires_at: link.expires_at,
    }
}
