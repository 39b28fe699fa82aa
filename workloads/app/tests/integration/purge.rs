//! The command `app purge`.

use shortener_common::{config::PurgeArgs, database::StoreError, purge::remove_expired};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection};

use crate::{
    process::{migrated, start},
    support::access,
};

const EXTENT: PurgeArgs = PurgeArgs {
    purge_retention_days: 30,
    purge_audit_days: 400,
};

async fn count(connection: &mut PgConnection, query: &'static str) -> i64 {
    let count = sqlx::query_scalar(query).fetch_one(connection).await;
    count.unwrap()
}

#[tokio::test]
async fn a_purge_removes_what_has_expired_and_exits() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    for rows in [
        "INSERT INTO links (code, url, expires_at) VALUES ('old', 'https://example.com', now() - interval '1 h'), ('new', 'https://example.com', now() + interval '1 h')",
        "INSERT INTO jobs (message_id, task, state, finished_at) VALUES (gen_random_uuid(), 'old', 'done', now() - interval '8 days'), (gen_random_uuid(), 'new', 'done', now() - interval '6 days')",
        "INSERT INTO audit_log (at, actor, action) VALUES (now() - interval '10 days', 'old', 'link_deleted'), (now() - interval '8 days', 'new', 'link_deleted')",
    ] {
        connection.execute(rows).await.unwrap();
    }
    let environment = [
        ("DATABASE_URL", url.as_str()),
        ("PURGE_RETENTION_DAYS", "7"),
        ("PURGE_AUDIT_DAYS", "9"),
    ];
    let mut process = start(&["purge"], &environment);
    assert_eq!(process.event("purged").await["rows"], 1);
    assert!(process.exit().await.success());
    let left = "SELECT code FROM links WHERE url IS NOT NULL UNION ALL SELECT task FROM jobs \
        UNION ALL SELECT actor FROM audit_log";
    let left: Vec<String> = sqlx::query_scalar(left)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, ["new", "new", "new"]);
}

#[tokio::test]
async fn a_kind_of_data_that_cannot_be_removed_does_not_keep_the_others() {
    let database = TestDatabase::new().await;
    migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    let rows = "INSERT INTO jobs (message_id, task, state, finished_at) \
        SELECT gen_random_uuid(), 'old', 'done', now() - n * interval '1 day' FROM generate_series(1, 2500) n; \
        INSERT INTO link_keys (key, body_sha256, created_at) VALUES ('old', '', now() - interval '3 days')";
    connection.execute(rows).await.unwrap();
    let mut holder = database.connect().await.unwrap();
    let lock = "BEGIN; LOCK TABLE link_keys IN ACCESS EXCLUSIVE MODE";
    holder.execute(lock).await.unwrap();
    let impatient = (*database)
        .clone()
        .options([("statement_timeout", "500ms")]);
    let impatient = access(&impatient).await;
    let removed = remove_expired(&impatient, &EXTENT).await;
    assert!(
        matches!(removed, Err(StoreError::TimedOut(_))),
        "{removed:?}"
    );
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM jobs").await,
        29
    );
    holder.execute("COMMIT").await.unwrap();
    remove_expired(&impatient, &EXTENT).await.unwrap();
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM link_keys").await,
        0
    );
}

#[tokio::test]
async fn every_step_of_a_purge_has_an_index_in_the_order_of_time() {
    let database = TestDatabase::new().await;
    migrated(&database).await;
    // Of empty tables, the whole is read more quickly.
    let only = [
        ("enable_seqscan", "off"),
        ("enable_sort", "off"),
        ("enable_bitmapscan", "off"),
    ];
    let access = access(&(*database).clone().options(only)).await;
    remove_expired(&access, &EXTENT).await.unwrap();
    let mut connection = database.connect().await.unwrap();
    let used = "SELECT count(*) FROM pg_stat_user_indexes WHERE idx_scan > 0 AND indexrelname IN \
        ('links_by_expiry', 'links_disabled_by_expiry', 'link_keys_by_age', 'job_keys_by_age', 'jobs_by_end', \
        'audit_log_by_age')";
    // The server counts after a while.
    while count(&mut connection, used).await < 6 {}
}
