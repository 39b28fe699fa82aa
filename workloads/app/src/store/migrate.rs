//! Schema migrations: embedded in the binary, and applied by `app migrate` before a new version serves.
//!
//! Versions overlap during a rollout. A migration therefore only adds to the schema that the previous version uses,
//! and only removes parts that no running version uses.

use std::time::{Duration, Instant};

use shortener_common::{
    backends::Unusable,
    database::{is_refused_by_pooler, no_answer, unusable},
    tls,
};
use sqlx::{
    ConnectOptions, Connection, PgConnection, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
    postgres::PgConnectOptions,
};
use tokio::time::{sleep, timeout};

/// The name and the statements of each migration in `migrations/`, in order. A released one never changes: the
/// database keeps its checksum.
const MIGRATIONS: [(&str, &str); 4] = [
    ("links", include_str!("../../migrations/0001_links.sql")),
    ("jobs", include_str!("../../migrations/0002_jobs.sql")),
    (
        "documents",
        include_str!("../../migrations/0003_documents.sql"),
    ),
    (
        "unfinished_jobs",
        include_str!("../../migrations/0004_unfinished_jobs.sql"),
    ),
];

/// The statements that begin the transaction of a migration. The lock lasts until the transaction ends: a lock of the
/// session would stay behind in a session that a pooler gives to other clients. Nothing limits a statement, because an
/// index on a large table takes its time.
const BEGIN: &str = "SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = 0; \
    SELECT pg_advisory_xact_lock(hashtextextended('shortener-migrations', 0))";
/// The pause between two attempts.
const RETRY: Duration = Duration::from_millis(500);
/// The timeout of one connection attempt.
const CONNECT: Duration = Duration::from_secs(5);

/// Returns the migrations of this version. A schema with migrations of a newer version is accepted, because a
/// rollback finds one.
#[must_use]
pub fn migrator() -> Migrator {
    let migrations = (1..).zip(MIGRATIONS).map(|(version, (name, statements))| {
        let kind = MigrationType::Simple;
        Migration::new(version, name.into(), kind, statements.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.set_ignore_missing(true);
    migrator.set_locking(false);
    migrator
}

/// Waits for the database and applies missing migrations.
///
/// # Errors
/// Fails if the database is not ready in time, rejects the credentials, or a migration fails. The error is an
/// [`Unusable`].
pub async fn migrate(options: PgConnectOptions, at_most: Duration) -> anyhow::Result<()> {
    let options = options.application_name("shortener-migrate");
    let started = Instant::now();
    let mut last_reason = String::new();
    loop {
        let (Unusable { reason, fault }, passing) = match attempt(&options).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if !passing {
            let reason = format!("cannot migrate the database: {reason}");
            return Err(Unusable { reason, fault }.into());
        }
        if started.elapsed() >= at_most {
            let at_most = at_most.as_secs();
            let reason = format!("the database was not ready within {at_most} s: {reason}");
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
        sleep(RETRY).await;
    }
}

/// Makes one attempt. An error has the reason, and true if a retry can help.
async fn attempt(options: &PgConnectOptions) -> Result<(), (Unusable, bool)> {
    let mut connection = timeout(CONNECT, options.connect())
        .await
        .map_err(|_| (no_answer(CONNECT), true))?
        .map_err(|error| (unusable(&error), may_pass(&error)))?;
    run(&mut connection).await.map_err(|error| {
        let passing = matches!(&error, MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) if may_pass(cause));
        let reason = error.to_string();
        (
            Unusable {
                reason,
                fault: None,
            },
            passing,
        )
    })?;
    let _ = connection.close().await;
    Ok(())
}

/// Applies missing migrations, each in a transaction that looks first whether another pod has applied it meanwhile.
async fn run(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let migrator = migrator();
    for migration in migrator.iter() {
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(BEGIN).execute(&mut *transaction).await?;
        migrator
            .run_to(migration.version, &mut *transaction)
            .await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Returns true if the error is temporary: the server starts, stops, fails over or is locked. A certificate that is
/// refused is an error of the settings, which the next start of the pod reads anew, and so are settings that a pooler
/// refuses.
fn may_pass(error: &sqlx::Error) -> bool {
    match error {
        error if tls::fault(error).is_some() || is_refused_by_pooler(error) => false,
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(refusal) => refusal.code().is_some_and(|code| {
            ["57P", "55P03", "53", "08", "25006"]
                .iter()
                .any(|class| code.starts_with(class))
        }),
        _ => false,
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

    #[test]
    fn no_index_is_built_under_the_lock_of_a_changed_table() {
        for (name, statements) in MIGRATIONS {
            let first_word = |text: &'static str| text.split_whitespace().next();
            let changed = statements.split("ALTER TABLE ").skip(1);
            let changed: Vec<&str> = changed.filter_map(first_word).collect();
            for index in statements.split("CREATE INDEX ").skip(1) {
                let table = index.split_whitespace().nth(2).unwrap();
                assert!(!changed.contains(&table), "{name}: {table}");
            }
        }
    }
}
