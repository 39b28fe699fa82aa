//! A pooler that shares sessions of the database among clients: `app migrate` gives the sessions their limits, and ends only
//! when the pooler serves, so that no program starts that cannot use it.

use std::time::Duration;

use shortener_common::{backends::Unusable, config::LIMITS, database::no_answer};
use sqlx::{AssertSqlSafe, Connection, PgConnection, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::migrate::{APPLICATION, Retry, connect, failure, retrying};

/// The settings of the role for the sessions that it opens, such as `statement_timeout=5s`.
const SETTINGS: &str = "SELECT coalesce((SELECT setconfig FROM pg_db_role_setting \
    WHERE setdatabase = 0 AND setrole = (SELECT oid FROM pg_roles WHERE rolname = current_user)), '{}')";
/// Pods that start together change the same row, of which PostgreSQL refuses one.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('shortener-role', 0))";
/// The time for the answer to a statement through the pooler. It waits for a session of the server no longer than that.
const ANSWER: Duration = Duration::from_secs(10);

/// Gives the role the limits of a session, which a client of the pooler cannot set, and waits until the pooler serves.
///
/// # Errors
/// Fails if the pooler does not serve in time, or refuses the certificate, the credentials or the settings. The error is an
/// [`Unusable`].
pub async fn open(
    server: PgConnectOptions,
    pooler: PgConnectOptions,
    at_most: Duration,
) -> anyhow::Result<()> {
    let server = server.application_name(APPLICATION);
    let subject = ("cannot limit the role of", "the database");
    retrying(subject, at_most, async || {
        let mut connection = connect(&server).await?;
        let limited = limit(&mut connection).await;
        limited.map_err(|error| failure(&error))?;
        let _ = connection.close().await;
        Ok(())
    })
    .await?;
    let pooler = pooler.application_name(APPLICATION);
    let name = format!("the pooler {}", pooler.get_host());
    retrying(("cannot use", &name), at_most, async || ask(&pooler).await).await
}

/// Sets the limits that the role lacks. A role may change its own settings.
async fn limit(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(LOCK).execute(&mut *transaction).await?;
    let settings = sqlx::query_scalar(SETTINGS);
    let settings: Vec<String> = settings.fetch_one(&mut *transaction).await?;
    for (name, value) in LIMITS {
        if settings.contains(&format!("{name}={value}")) {
            continue;
        }
        let statement = format!("ALTER ROLE CURRENT_USER SET {name} = '{value}'");
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        statement.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

/// Runs a statement through the pooler, which accepts clients also while it reaches no server.
async fn ask(pooler: &PgConnectOptions) -> Result<(), (Unusable, Option<Retry>)> {
    let mut connection = connect(pooler).await?;
    let answered = timeout(ANSWER, sqlx::raw_sql("SELECT 1").execute(&mut connection));
    let answered = answered.await;
    let answered = answered.map_err(|_| (no_answer(ANSWER), Some(Retry::Unready)))?;
    answered.map_err(|error| failure(&error))?;
    let _ = connection.close().await;
    Ok(())
}
