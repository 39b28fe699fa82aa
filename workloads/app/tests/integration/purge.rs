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
    purge_click_days: 400,
    purge_document_days: Some(30),
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
        "INSERT INTO clicks (code, day, people, bots) SELECT code, (now() AT TIME ZONE 'UTC')::date - age, 1, 0 \
            FROM (VALUES ('old', 2000), ('old', 6), ('new', 5)) AS clicks (code, age)",
        "INSERT INTO click_batches (id, created_at) VALUES (gen_random_uuid(), now() - interval '3 days'), (gen_random_uuid(), now() - interval '1 day')",
    ] {
        connection.execute(rows).await.unwrap();
    }
    let environment = [
        ("DATABASE_URL", url.as_str()),
        ("PURGE_RETENTION_DAYS", "7"),
        ("PURGE_AUDIT_DAYS", "9"),
        ("PURGE_CLICK_DAYS", "5"),
    ];
    let mut process = start(&["purge"], &environment);
    assert_eq!(process.event("purged").await["rows"], 1);
    assert!(process.exit().await.success());
    let left = "SELECT code FROM links WHERE url IS NOT NULL UNION ALL SELECT task FROM jobs \
        UNION ALL SELECT actor FROM audit_log UNION ALL SELECT code FROM clicks UNION ALL SELECT 'new' FROM click_batches";
    let left: Vec<String> = sqlx::query_scalar(left)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, ["new"; 5]);
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
    let removed = remove_expired(&impatient, EXTENT).await;
    assert!(
        matches!(removed, Err(StoreError::TimedOut(_))),
        "{removed:?}"
    );
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM jobs").await,
        29
    );
    holder.execute("COMMIT").await.unwrap();
    remove_expired(&impatient, EXTENT).await.unwrap();
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM link_keys").await,
        0
    );
}

#[tokio::test]
async fn what_clients_without_a_key_stored_goes_sooner_and_their_documents_only_if_wanted() {
    let database = TestDatabase::new().await;
    migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    let rows = "INSERT INTO jobs (message_id, task, state, finished_at, origin) \
        SELECT ('00000000-0000-7000-8000-00000000000' || n)::uuid, coalesce(origin, ''), 'done', now() - interval '2 days', origin \
        FROM unnest(ARRAY['anonymous', 'key:shop', 'internal', NULL, 'anonymous', 'anonymous']) WITH ORDINALITY jobs (origin, n); \
        INSERT INTO documents (id, vector, payload, changed_at, indexed_at, due_at, origin) SELECT n, '{1}', '{}', \
        now() - n * interval '1 day', now(), NULL, CASE n % 3 WHEN 0 THEN 'anonymous' WHEN 1 THEN 'key:shop' END \
        FROM generate_series(1, 60) n";
    connection.execute(rows).await.unwrap();
    let access = access(&database).await;
    let of_clients = PurgeArgs {
        purge_document_days: None,
        ..EXTENT
    };
    remove_expired(&access, of_clients).await.unwrap();
    let left = "SELECT count(*) FROM jobs WHERE origin IS DISTINCT FROM 'anonymous'";
    assert_eq!(count(&mut connection, left).await, 3);
    // And the latest job of all.
    assert_eq!(count(&mut connection, "SELECT count(*) FROM jobs").await, 4);
    let latest = "SELECT count(*) FROM jobs WHERE message_id::text LIKE '%6'";
    assert_eq!(count(&mut connection, latest).await, 1);
    let whole = "SELECT count(*) FROM documents WHERE vector IS NOT NULL";
    assert_eq!(count(&mut connection, whole).await, 60);

    remove_expired(&access, EXTENT).await.unwrap();
    assert_eq!(count(&mut connection, whole).await, 60 - 11);
    let removed = "SELECT count(*) FROM documents WHERE vector IS NULL AND origin = 'anonymous' AND id >= 30 \
        AND indexed_at IS NULL AND due_at <= now()";
    assert_eq!(count(&mut connection, removed).await, 11);
}

/// Stores an expired link, an expired one that is disabled, and a live one, with labels and clicks.
async fn labelled(connection: &mut PgConnection) {
    let rows = "INSERT INTO links (code, url, disabled_url, disabled_at, disabled_as, expires_at) VALUES \
            ('old', 'https://a/', NULL, NULL, NULL, now() - interval '1 h'), \
            ('down', NULL, 'https://a/', now(), 'gone', now() - interval '1 h'), \
            ('new', 'https://a/', NULL, NULL, NULL, now() + interval '1 h'); \
        INSERT INTO link_labels SELECT code, 'title', 'note' FROM links; \
        INSERT INTO link_tags SELECT tag, created_at, code FROM links, unnest('{a,b}'::text[]) tag; \
        INSERT INTO link_title_words SELECT 'title', created_at, code FROM links; \
        INSERT INTO clicks SELECT code, current_date, 1, 1 FROM links";
    connection.execute(rows).await.unwrap();
}

/// Returns the codes of all labels, and of all clicks.
async fn kept(connection: &mut PgConnection) -> (Option<String>, Option<String>) {
    let kept = "SELECT (SELECT string_agg(code, ' ') FROM (SELECT code FROM link_labels \
            UNION ALL SELECT code FROM link_tags UNION ALL SELECT code FROM link_title_words) AS labels), \
        (SELECT string_agg(code, ' ' ORDER BY code) FROM clicks)";
    sqlx::query_as(kept).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn a_purge_removes_labels_with_the_destination_that_they_describe() {
    let database = TestDatabase::new().await;
    migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    labelled(&mut connection).await;
    remove_expired(&access(&database).await, EXTENT)
        .await
        .unwrap();
    let (labels, clicks) = kept(&mut connection).await;
    assert_eq!(labels.as_deref(), Some("new new new new"));
    assert_eq!(clicks.as_deref(), Some("down new old"));
}

#[tokio::test]
async fn a_link_that_an_earlier_version_deletes_keeps_neither_labels_nor_clicks() {
    let database = TestDatabase::new().await;
    migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    labelled(&mut connection).await;
    // The statement of the versions before labels and clicks.
    let delete = "UPDATE links SET purge_due_at = now(), url = NULL, disabled_url = NULL, host = NULL, \
        disabled_at = now(), disabled_as = 'deleted', disabled_by = 'ops', notice = NULL WHERE code <> 'old'";
    connection.execute(delete).await.unwrap();
    let (labels, clicks) = kept(&mut connection).await;
    assert_eq!(labels.as_deref(), Some("old old old old"));
    assert_eq!(clicks.as_deref(), Some("old"));
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
    let mut connection = database.connect().await.unwrap();
    // Without a link, there are no labels to look for.
    let expired = "INSERT INTO links (code, url, expires_at) VALUES ('old', 'https://a/', now())";
    connection.execute(expired).await.unwrap();
    remove_expired(&access, EXTENT).await.unwrap();
    let used = "SELECT count(*) FROM pg_stat_user_indexes WHERE idx_scan > 0 AND indexrelname IN \
        ('links_by_expiry', 'links_disabled_by_expiry', 'link_keys_by_age', 'job_keys_by_age', 'jobs_by_end', \
        'audit_log_by_age', 'jobs_anonymous', 'documents_anonymous', 'clicks_by_day', 'click_batches_by_age', \
        'link_labels_pkey', 'link_tags_by_code', 'link_title_words_by_code', \
        'webhook_deliveries_given_up', 'webhook_deliveries_by_age')";
    // The server counts after a while.
    while count(&mut connection, used).await < 15 {}
}
