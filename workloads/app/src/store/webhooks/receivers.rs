//! The table of the receivers: `app migrate` makes it equal to the settings.
//!
//! During a rollout a pod of the earlier template can start, and its migration has the earlier receivers. The sender, which is
//! one pod of one Deployment, therefore stores its receivers again and again, and none that it has goes in between.

use anyhow::Context;
use shortener_common::database::{READ_ONLY, StoreError, begin};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, postgres::PgConnectOptions};

use super::{EXCESS_BATCH, Outbox};
use crate::{
    store::migrate::APPLICATION,
    webhooks::{Receiver, Receivers},
};

/// Lifts the limits of the session: many deliveries may go with a receiver, and `app migrate` waits for that.
const UNLIMITED: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// Keeps other pods away.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('shortener-webhooks', 0))";

/// A receiver that begins to get expired links gets those that expire from then on.
const UPSERT: &str = "INSERT INTO webhook_receivers (name, url, events) VALUES ($1, $2, $3) \
    ON CONFLICT (name) DO UPDATE SET url = excluded.url, events = excluded.events, \
        expired_at = CASE WHEN 'link.expired' = ANY (webhook_receivers.events) \
            THEN webhook_receivers.expired_at ELSE now() END, seen_at = now()";

/// Removes up to `$2` deliveries to receivers that are not in the list, and these receivers if they have no more.
const REMOVE: &str = "WITH old AS (SELECT name FROM webhook_receivers WHERE name <> ALL ($1) \
        AND seen_at < now() - interval '5 minutes'), \
    found AS (SELECT id FROM webhook_deliveries WHERE receiver IN (SELECT name FROM old) LIMIT $2), \
    gone AS (DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM found)) \
    DELETE FROM webhook_receivers WHERE name IN (SELECT name FROM old) \
        AND (SELECT count(*) FROM found) < $2";

/// Stores the receivers. Those that are not in the list go with what was not delivered to them, once no program has had them
/// for five minutes: a sender may have them. A read-only database keeps those that it has: it moves, and the pods that start
/// after the move store theirs.
///
/// # Errors
/// Fails if the database is down.
pub async fn apply(options: PgConnectOptions, receivers: &Receivers) -> anyhow::Result<()> {
    let options = options.application_name(APPLICATION);
    let mut connection = options
        .connect()
        .await
        .context("cannot store the receivers")?;
    let stored = async {
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(UNLIMITED).execute(&mut *transaction).await?;
        store(&mut transaction, receivers, i64::MAX).await?;
        transaction.commit().await
    };
    match stored.await {
        Err(error) if is_read_only(&error) => {
            tracing::warn!(event = "webhook_receivers_failed", error.message = %error, "webhook_receivers_failed");
        }
        stored => stored.context("cannot store the receivers")?,
    }
    let _ = connection.close().await;
    Ok(())
}

impl Outbox {
    /// Stores the receivers as [`apply`] does, within the limits of a session. A receiver that has many deliveries goes in
    /// several of these steps.
    pub async fn store_receivers(&self, receivers: &Receivers) -> Result<(), StoreError> {
        let stored = |pool: PgPool| async move {
            let mut transaction = begin(&pool).await?;
            store(&mut transaction, receivers, EXCESS_BATCH as i64).await?;
            transaction.commit().await
        };
        self.0.run("INSERT webhook_receivers", stored).await
    }
}

fn is_read_only(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error();
    refusal.is_some_and(|refusal| refusal.code().as_deref() == Some(READ_ONLY))
}

async fn store(
    connection: &mut PgConnection,
    Receivers(receivers): &Receivers,
    removed_at_most: i64,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(LOCK).execute(&mut *connection).await?;
    let names: Vec<&str> = receivers.iter().map(|receiver| &*receiver.name).collect();
    let remove = sqlx::query(REMOVE).bind(names).bind(removed_at_most);
    remove.execute(&mut *connection).await?;
    for Receiver { name, url, events } in receivers {
        let upsert = sqlx::query(UPSERT).bind(name).bind(url.as_str());
        upsert.bind(events).execute(&mut *connection).await?;
    }
    Ok(())
}
