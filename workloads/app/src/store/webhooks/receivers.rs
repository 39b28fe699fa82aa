//! The table of the receivers: `app migrate` makes it equal to the settings.
//!
//! During a rollout a pod of the earlier template can start, and its migration has the earlier receivers. The sender, which is
//! one pod of one Deployment, therefore stores its receivers again and again, and none that it has goes in between.

use anyhow::Context;
use shortener_common::database::{READ_ONLY, StoreError, begin};
use sqlx::{ConnectOptions, Connection, PgPool, PgTransaction, postgres::PgConnectOptions};

use super::Outbox;
use crate::{
    store::migrate::APPLICATION,
    webhooks::{Receiver, Receivers},
};

/// Nothing limits the statements: many deliveries may go with a receiver. The lock keeps other pods away.
const BEGIN: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; \
    SELECT pg_advisory_xact_lock(hashtextextended('shortener-webhooks', 0))";

/// A receiver that begins to get expired links gets those that expire from then on.
const UPSERT: &str = "INSERT INTO webhook_receivers (name, url, events) VALUES ($1, $2, $3) \
    ON CONFLICT (name) DO UPDATE SET url = excluded.url, events = excluded.events, \
        expired_at = CASE WHEN 'link.expired' = ANY (webhook_receivers.events) \
            THEN webhook_receivers.expired_at ELSE now() END, seen_at = now()";

/// Without any receiver there is no sender that could remove them later.
const REMOVE: &str = "WITH gone AS (DELETE FROM webhook_receivers WHERE name <> ALL ($1) \
        AND (cardinality($1) = 0 OR seen_at < now() - interval '5 minutes') RETURNING name) \
    DELETE FROM webhook_deliveries WHERE receiver IN (SELECT name FROM gone)";

/// Stores the receivers. Those that are not in the list go with what was not delivered to them, once no program has had them
/// for five minutes; at once if the list is empty. A read-only database keeps those that it has: it moves, and the pods that
/// start after the move store theirs.
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
        let transaction = connection.begin().await?;
        store(transaction, receivers).await
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
    /// Stores the receivers as [`apply`] does.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn store_receivers(&self, receivers: &Receivers) -> Result<(), StoreError> {
        let stored = |pool: PgPool| async move { store(begin(&pool).await?, receivers).await };
        self.0.run("INSERT webhook_receivers", stored).await
    }
}

fn is_read_only(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error();
    refusal.is_some_and(|refusal| refusal.code().as_deref() == Some(READ_ONLY))
}

async fn store(
    mut transaction: PgTransaction<'_>,
    Receivers(receivers): &Receivers,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(BEGIN).execute(&mut *transaction).await?;
    let names: Vec<&str> = receivers.iter().map(|receiver| &*receiver.name).collect();
    let remove = sqlx::query(REMOVE).bind(names);
    remove.execute(&mut *transaction).await?;
    for Receiver { name, url, events } in receivers {
        let upsert = sqlx::query(UPSERT).bind(name).bind(url.as_str());
        upsert.bind(events).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
