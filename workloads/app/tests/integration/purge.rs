//! The command `app purge`.

use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor};

use crate::process::{migrated, start};

#[tokio::test]
async fn a_purge_removes_what_has_expired_and_exits() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    for rows in [
        "INSERT INTO links (code, url, expires_at) VALUES ('old', 'https://example.com', now() - interval '1 h'), ('new', 'https://example.com', now() + interval '1 h')",
        "INSERT INTO jobs (message_id, task, state, finished_at) VALUES (gen_random_uuid(), 'old', 'done', now() - interval '8 days'), (gen_random_uuid(), 'new', 'done', now() - interval '6 days')",
    ] {
        connection.execute(rows).await.unwrap();
    }
    let environment = [
        ("DATABASE_URL", url.as_str()),
        ("PURGE_RETENTION_DAYS", "7"),
    ];
    let mut process = start(&["purge"], &environment);
    assert_eq!(process.event("purged").await["rows"], 1);
    assert!(process.exit().await.success());
    let left = "SELECT code FROM links WHERE url IS NOT NULL UNION ALL SELECT task FROM jobs";
    let left: Vec<String> = sqlx::query_scalar(left)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, ["new", "new"]);
}
