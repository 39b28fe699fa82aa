//! Schema migrations: embedded in the binary, and applied by `app migrate` before a new version serves.
//!
//! Versions overlap during a rollout. A migration therefore only adds to the schema that the previous version uses,
//! and only removes parts that no running version uses.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use shortener_common::{
    backends::Unusable,
    database::{READ_ONLY, is_refused_by_pooler, no_answer, unusable},
    tls,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
    postgres::PgConnectOptions,
};
use tokio::time::{sleep, timeout};

macro_rules! migrations {
    ($($version:tt $name:ident)*) => {
        [$((
            $version,
            stringify!($name),
            include_str!(concat!("../../migrations/", stringify!($version), "_", stringify!($name), ".sql")),
        )),*]
    };
}

/// The version, the name and the statements of each migration in `migrations/`, in order. A released one never changes:
/// the database keeps its checksum.
///
/// An index of a table that exists already has a migration of its own with its name, so that it is built beside writes.
#[expect(
    clippy::zero_prefixed_literal,
    reason = "so begin the names of the files"
)]
const MIGRATIONS: [(i64, &str, &str); 33] = migrations! {
    0001 links
    0002 jobs
    0003 documents
    0004 jobs_unfinished
    0005 link_keys_by_age
    0006 links_disabled_by_expiry
    0007 links_down
    0008 links_deleted
    0009 origins
    0010 jobs_anonymous
    0011 documents_anonymous
    0012 audit_log
    0013 database_identity
    0014 clicks
    0015 link_labels
    0016 links_by_creator
    0017 links_by_creation
    0018 links_without_destination
    0019 link_templates
    0020 link_owners
    0021 links_by_creator_and_code
    0022 links_by_disabler
    0023 audit_log_by_transfer
    0024 jobs_by_client
    0025 documents_by_client
    0026 erasures
    0027 webhooks
    0028 links_by_end
    0029 webhook_deliveries_by_state
    0030 webhook_leases
    0031 webhook_receivers_seen
    0032 vector_target
    0033 jobs_alive
};

/// The first line of a migration that cannot run in a transaction, as sqlx spells it: that of an index.
const ALONE: &str = "-- no-transaction\n";
/// The statements that begin the transaction of a migration. At this isolation level it holds no snapshot between
/// statements, for which the building of an index would wait. The lock lasts until the transaction ends: a lock of the
/// session would stay behind in a session that a pooler gives to other clients. Nothing limits a statement, because an
/// index on a large table takes its time.
///
/// A statement that changes a table waits for statements in progress, a dump for example, and all later ones wait behind
/// it. It therefore gives up soon and tries again.
const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '200ms'; \
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Takes the lock of the migrations, or returns false. It does not wait: the building of an index waits for statements in
/// progress, also for those that wait for it.
const LOCK: &str = "SELECT pg_try_advisory_xact_lock(hashtextextended('shortener-migrations', 0))";
/// The pause between two attempts.
const RETRY: Duration = Duration::from_millis(500);
/// The pause after an attempt that found a lock, in milliseconds.
const RETRY_LOCKED: Range<u64> = 2000..5000;
/// The state (SQLSTATE) of a lock that was not available in time.
const LOCKED: &str = "55P03";
/// The setting of a session that ends a statement which takes too long.
const STATEMENT_TIMEOUT: &str = "statement_timeout";
/// The `application_name` of the connections.
pub(crate) const APPLICATION: &str = "shortener-migrate";
/// The timeout of one connection attempt.
const CONNECT: Duration = Duration::from_secs(5);

/// Returns the migrations of this version. A schema with migrations of a newer version is accepted, because a
/// rollback finds one.
pub fn migrator() -> Migrator {
    let migrations = MIGRATIONS.map(|(version, name, statements)| {
        let (kind, alone) = (MigrationType::Simple, statements.starts_with(ALONE));
        Migration::new(version, name.into(), kind, statements.into_sql_str(), alone)
    });
    migrator_of(migrations.into())
}

/// Returns a migrator for these migrations, as [`apply`] needs it.
pub fn migrator_of(migrations: Vec<Migration>) -> Migrator {
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.set_ignore_missing(true);
    migrator.set_locking(false);
    migrator
}

/// Waits for the database and applies the missing migrations of this version.
///
/// # Errors
/// Returns the errors of [`apply`].
pub async fn migrate(options: PgConnectOptions, at_most: Duration) -> anyhow::Result<()> {
    apply(&migrator(), options, at_most).await
}

/// Waits for the database and applies missing migrations. Waiting for locks has no time limit: a dump may hold them for hours.
///
/// # Errors
/// Fails if the database is not ready in time, rejects the credentials, or a migration fails. The error is an
/// [`Unusable`].
pub async fn apply(
    migrator: &Migrator,
    options: PgConnectOptions,
    at_most: Duration,
) -> anyhow::Result<()> {
    let options = options.application_name(APPLICATION);
    retrying(("cannot migrate", "the database"), at_most, async || {
        attempt(migrator, &options).await
    })
    .await
}

/// Makes attempts until one succeeds. An error has the reason, and why another attempt can help, if it can. `failed` and
/// `subject` say what could not be done.
///
/// # Errors
/// Fails if the database is not ready in time, or another attempt cannot help. The error is an [`Unusable`].
pub(super) async fn retrying(
    (failed, subject): (&str, &str),
    at_most: Duration,
    attempt: impl AsyncFn() -> Result<(), (Unusable, Option<Retry>)>,
) -> anyhow::Result<()> {
    let mut started = Instant::now();
    let mut last_reason = String::new();
    loop {
        let (Unusable { reason, fault }, retry) = match attempt().await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if matches!(retry, Some(Retry::Locked | Retry::Migrated)) {
            started = Instant::now();
        }
        let Some(retry) = retry else {
            let reason = format!("{failed} {subject}: {reason}");
            return Err(Unusable { reason, fault }.into());
        };
        if started.elapsed() >= at_most {
            let at_most = at_most.as_secs();
            let reason = format!("{subject} was not ready within {at_most} s: {reason}");
            return Err(Unusable { reason, fault }.into());
        }
        if reason != last_reason {
            tracing::info!(
                event = "database_wait",
                error.message = reason,
                "database_wait"
            );
            last_reason = reason;
        }
        sleep(retry.pause()).await;
    }
}

/// A temporary reason why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// The server starts, stops, fails over or cannot be reached.
    Unready,
    /// Another program holds a lock that a migration needs.
    Locked,
    /// Another program migrates the database.
    Migrated,
}

impl Retry {
    /// Returns the pause before the next attempt.
    fn pause(self) -> Duration {
        match self {
            Self::Unready | Self::Migrated => RETRY,
            Self::Locked => Duration::from_millis(rand::random_range(RETRY_LOCKED)),
        }
    }
}

/// Makes one attempt. An error has the reason, and why another attempt can help, if it can.
async fn attempt(
    migrator: &Migrator,
    options: &PgConnectOptions,
) -> Result<(), (Unusable, Option<Retry>)> {
    let mut connection = connect(options).await?;
    let applied = run(migrator, &mut connection, options).await;
    let applied = applied.map_err(|error| {
        let retry = match &error {
            MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => retry(cause),
            _ => None,
        };
        let (reason, fault) = (error.to_string(), None);
        (Unusable { reason, fault }, retry)
    })?;
    let _ = connection.close().await;
    if !applied {
        let reason = "another program migrates it".to_owned();
        let fault = None;
        return Err((Unusable { reason, fault }, Some(Retry::Migrated)));
    }
    Ok(())
}

/// Opens a connection. An error has the reason, and why another attempt can help, if it can.
pub(super) async fn connect(
    options: &PgConnectOptions,
) -> Result<PgConnection, (Unusable, Option<Retry>)> {
    timeout(CONNECT, options.connect())
        .await
        .map_err(|_| (no_answer(CONNECT), Some(Retry::Unready)))?
        .map_err(|error| failure(&error))
}

/// Returns the reason of an error, and why another attempt can help, if it can.
pub(super) fn failure(error: &sqlx::Error) -> (Unusable, Option<Retry>) {
    (unusable(error), retry(error))
}

/// Applies missing migrations, each in a transaction that looks whether another pod has applied it meanwhile. Those that are
/// there already take no lock, so that pods which start together do not wait for each other. Without a missing one nothing is
/// written, so that pods start while a database that moves is read-only. Returns false if another program migrates the
/// database.
async fn run(
    migrator: &Migrator,
    connection: &mut PgConnection,
    options: &PgConnectOptions,
) -> Result<bool, MigrateError> {
    for migration in migrator.iter() {
        if is_applied(migration, connection).await? {
            continue;
        }
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(BEGIN).execute(&mut *transaction).await?;
        let lock = sqlx::query_scalar(LOCK);
        if !lock.fetch_one(&mut *transaction).await? {
            // A pooler closes the session of a client that leaves in a transaction.
            transaction.rollback().await?;
            return Ok(false);
        }
        if migration.no_tx && !is_applied(migration, &mut transaction).await? {
            build_index(migrator, migration, options).await?;
        } else {
            migrator
                .run_to(migration.version, &mut *transaction)
                .await?;
        }
        transaction.commit().await?;
    }
    Ok(true)
}

/// Returns true if a migration was applied.
///
/// # Errors
/// Fails if other statements were applied in its name.
async fn is_applied(
    migration: &Migration,
    connection: &mut PgConnection,
) -> Result<bool, MigrateError> {
    let begun = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL");
    if !begun.fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    let query = "SELECT checksum FROM _sqlx_migrations WHERE version = $1";
    let query = sqlx::query_scalar(query).bind(migration.version);
    let applied: Option<Vec<u8>> = query.fetch_optional(connection).await?;
    match applied {
        Some(checksum) if checksum[..] != migration.checksum[..] => {
            Err(MigrateError::VersionMismatch(migration.version))
        }
        applied => Ok(applied.is_some()),
    }
}

/// Builds the index of a migration beside writes. That takes a session outside a transaction; the transaction of the
/// caller keeps other pods away meanwhile.
async fn build_index(
    migrator: &Migrator,
    migration: &Migration,
    options: &PgConnectOptions,
) -> Result<(), MigrateError> {
    let mut options = options.clone();
    let settings = options.get_options().unwrap_or_default();
    // Behind a pooler, the role has the limits.
    if settings.contains(STATEMENT_TIMEOUT) {
        options = options.options([(STATEMENT_TIMEOUT, "0"), ("lock_timeout", "0")]);
    }
    let mut session = options.connect().await?;
    // What an interrupted attempt has left is invalid, and every write maintains it.
    let name = &migration.description;
    let remove = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
    session.execute(AssertSqlSafe(remove)).await?;
    migrator.run_to(migration.version, &mut session).await?;
    let _ = session.close().await;
    Ok(())
}

/// Returns why another attempt can help, if the error is temporary. A certificate that is refused is an error of the settings,
/// which the next start of the pod reads anew, and so are settings that a pooler refuses.
fn retry(error: &sqlx::Error) -> Option<Retry> {
    match error {
        error if tls::fault(error).is_some() || is_refused_by_pooler(error) => None,
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => Some(Retry::Unready),
        sqlx::Error::Database(refusal) => {
            let code = refusal.code()?;
            if code == LOCKED {
                return Some(Retry::Locked);
            }
            let passing = ["57P", "53", "08", READ_ONLY];
            let is_passing = passing.iter().any(|class| code.starts_with(class));
            is_passing.then_some(Retry::Unready)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_a_migration() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<(String, String)> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        let migrator = migrator();
        let embedded: Vec<(String, String)> = migrator
            .iter()
            .map(|migration| {
                let name = format!("{:04}_{}.sql", migration.version, migration.description);
                (name, migration.sql.as_str().to_owned())
            })
            .collect();
        assert_eq!(embedded, files);
    }

    /// Returns the words after each of these beginnings.
    fn after<'a>(statements: &'a str, beginning: &str) -> Vec<Vec<&'a str>> {
        let ends = statements.split(beginning).skip(1);
        ends.map(|end| end.split_whitespace().collect()).collect()
    }

    #[test]
    fn no_index_of_an_existing_table_is_built_in_the_way_of_writes() {
        let mut existing = Vec::new();
        for (_, name, statements) in MIGRATIONS {
            let created: Vec<&str> = after(statements, "CREATE TABLE ")
                .iter()
                .map(|words| words[0])
                .collect();
            for index in after(statements, "CREATE INDEX ") {
                match index[..] {
                    ["CONCURRENTLY", index, "ON", table, ..] => {
                        assert!(existing.contains(&table), "{name}: {table}");
                        // One statement, for whose name `build_index` looks.
                        assert_eq!((index, statements.matches(';').count()), (name, 1));
                        assert!(statements.starts_with(ALONE), "{name}");
                    }
                    [_, "ON", table, ..] => assert!(created.contains(&table), "{name}: {table}"),
                    _ => panic!("{name}: {index:?}"),
                }
            }
            existing.extend(created);
        }
    }
}
