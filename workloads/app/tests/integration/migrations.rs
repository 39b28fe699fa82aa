//! Migrations of a database in use: neither readers nor writers wait for them.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use shortener_app::store::migrate::{apply, migrate, migrator, migrator_of};
use shortener_testing::database::TestDatabase;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Executor, PgConnection, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};
use tokio::time::sleep;

use crate::{
    client::{get, post, shorten},
    process::{migrated, start},
    support::{App, Blocker},
};

const PATIENT: Duration = Duration::from_secs(60);

/// Returns the migrations of this version that this condition chooses.
fn chosen(condition: impl Fn(&Migration) -> bool) -> Vec<Migration> {
    let migrator = migrator();
    let chosen = migrator.iter().filter(|migration| condition(migration));
    chosen.cloned().collect()
}

/// Returns the migrations of this version, and another one.
fn with(statement: &'static str) -> Migrator {
    let mut migrations = chosen(|_| true);
    let kind = MigrationType::Simple;
    let next = Migration::new(9000, "next".into(), kind, statement.into_sql_str(), false);
    migrations.push(next);
    migrator_of(migrations)
}

/// Returns the valid indexes of a migration of their own, and the definition of each.
async fn indexes(connection: &mut PgConnection) -> Vec<(String, String)> {
    let built = chosen(|migration| migration.no_tx);
    let names: Vec<_> = built
        .iter()
        .map(|one| one.description.to_string())
        .collect();
    let query = "SELECT relname::text, pg_get_indexdef(indexrelid) FROM pg_index \
        JOIN pg_class ON pg_class.oid = indexrelid WHERE indisvalid AND relname = ANY($1) ORDER BY 1";
    let query = sqlx::query_as(query).bind(names);
    query.fetch_all(connection).await.unwrap()
}

#[tokio::test]
async fn a_migration_that_waits_for_a_reader_does_not_hold_up_the_others() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let link = json!({"url": "https://example.com/", "code": "to"});
    shorten(app.public, link).await;
    let mut reader = database.connect().await.unwrap();
    // Like a dump.
    reader.execute("BEGIN; SELECT FROM links").await.unwrap();
    let migrator = with("ALTER TABLE links ADD COLUMN next text");
    let redirects = async {
        let mut longest = Duration::ZERO;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(6) {
            let sent = Instant::now();
            assert_eq!(get(app.public, "/to").await.status, 302);
            longest = longest.max(sent.elapsed());
        }
        reader.execute("COMMIT").await.unwrap();
        longest
    };
    let migration = apply(&migrator, (*database).clone(), PATIENT);
    let (migrated, longest) = tokio::join!(migration, redirects);
    migrated.unwrap();
    // The lock is waited for 200 ms at a time. Without an end of that, redirects time out.
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}

#[tokio::test]
async fn a_migration_waits_for_as_long_as_a_dump_takes() {
    let impatient = Duration::from_secs(1);
    for (before, migrator) in [
        // The table is locked.
        (migrator(), with("ALTER TABLE links ADD COLUMN next text")),
        // The building of an index waits, and the other programs for the one that builds it.
        (
            migrator_of(chosen(|migration| !migration.no_tx)),
            migrator(),
        ),
    ] {
        let database = TestDatabase::new().await;
        apply(&before, (*database).clone(), PATIENT).await.unwrap();
        let mut dump = database.connect().await.unwrap();
        let reads = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM links";
        dump.execute(reads).await.unwrap();
        let runs = (0..3).map(|_| apply(&migrator, (*database).clone(), impatient));
        let dumped = async {
            sleep(8 * impatient).await;
            dump.execute("COMMIT").await.unwrap();
        };
        let (migrated, ()) = tokio::join!(join_all(runs), dumped);
        for run in migrated {
            run.unwrap();
        }
    }
}

#[tokio::test]
async fn an_index_of_a_table_in_use_is_built_beside_writes() {
    let database = TestDatabase::new().await;
    let older = migrator_of(chosen(|migration| !migration.no_tx));
    apply(&older, (*database).clone(), PATIENT).await.unwrap();
    let app = App::serve_as_it_is(&database).await;
    let mut writer = database.connect().await.unwrap();
    let writes = "BEGIN; INSERT INTO links (code, url) VALUES ('a', 'https://example.com/'); \
        INSERT INTO link_keys (key, body_sha256) VALUES ('a', '')";
    writer.execute(writes).await.unwrap();
    let writes = async {
        let mut observer = Blocker::of_nothing(&database).await;
        observer.wait_until_blocked().await;
        let link = json!({"url": "https://example.com/"}).to_string();
        assert_eq!(post(app.public, "/shorten", link).await.status, 201);
        writer.execute("COMMIT").await.unwrap();
    };
    let (migrated, ()) = tokio::join!(migrate((*database).clone(), PATIENT), writes);
    migrated.unwrap();
    let built = indexes(&mut writer).await;
    assert_eq!(built.len(), chosen(|migration| migration.no_tx).len());
}

#[tokio::test]
async fn what_an_interrupted_build_of_an_index_left_is_replaced() {
    let database = TestDatabase::new().await;
    let older = migrator_of(chosen(|migration| !migration.no_tx));
    apply(&older, (*database).clone(), PATIENT).await.unwrap();
    let mut connection = database.connect().await.unwrap();
    connection
        .execute("CREATE INDEX link_keys_by_age ON link_keys (code)")
        .await
        .unwrap();
    let runs = [(); 3].map(|()| migrate((*database).clone(), PATIENT));
    for run in join_all(runs).await {
        run.unwrap();
    }
    let built = indexes(&mut connection).await;
    let replaced = built.iter().find(|(name, _)| name == "link_keys_by_age");
    assert!(replaced.unwrap().1.contains("(created_at)"), "{built:?}");
}

#[tokio::test]
async fn a_pod_starts_while_its_database_is_read_only_and_the_next_one_stores_its_receivers() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    let receiver = "INSERT INTO webhook_receivers (name, url, events, seen_at) \
        VALUES ('old', 'https://old.example/', '{}', now() - interval '6 min')";
    connection.execute(receiver).await.unwrap();
    let name = database.get_database().unwrap();
    for (read_only, kept) in [("on", 1), ("off", 0)] {
        let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {read_only}");
        connection.execute(AssertSqlSafe(set)).await.unwrap();
        let process = start(&["migrate"], &[("DATABASE_URL", &url)]);
        assert!(process.exit().await.success(), "{read_only}");
        let receivers = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM webhook_receivers");
        assert_eq!(receivers.fetch_one(&mut connection).await.unwrap(), kept);
    }
}

#[tokio::test]
async fn a_migration_that_has_changed_since_it_was_applied_is_refused() {
    let database = TestDatabase::new().await;
    migrate((*database).clone(), PATIENT).await.unwrap();
    let mut connection = database.connect().await.unwrap();
    let change = "UPDATE _sqlx_migrations SET checksum = '' WHERE version = 2";
    connection.execute(change).await.unwrap();
    let refused = migrate((*database).clone(), PATIENT).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("migration 2 was previously applied"),
        "{refused}"
    );
}
