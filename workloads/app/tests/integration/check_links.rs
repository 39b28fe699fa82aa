//! The command `app check-links`.

use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor};

use crate::process::{migrated, start};

#[tokio::test]
async fn links_that_redirect_are_resolved_and_a_database_without_any_passes() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    for (rows, resolved) in [
        ("SELECT 1", 0),
        (
            "INSERT INTO links (code, url, expires_at) VALUES ('old', 'https://example.com', now() - interval '1 h'), \
                ('host', 'https://bücher.example/ü', NULL), ('new', 'https://example.com', now() + interval '2 h')",
            2,
        ),
        (
            "INSERT INTO links (code, url) SELECT 'many' || number, 'https://example.com/' || number FROM generate_series(1, 50) AS number",
            20,
        ),
    ] {
        connection.execute(rows).await.unwrap();
        let mut process = start(&["check-links"], &[("DATABASE_URL", &url)]);
        assert_eq!(process.event("checked").await["links"], resolved);
        assert!(process.exit().await.success());
    }
    connection.execute("DROP TABLE links").await.unwrap();
    let process = start(&["check-links"], &[("DATABASE_URL", &url)]);
    assert!(!process.exit().await.success());
}

#[tokio::test]
async fn a_check_reads_a_small_part_of_many_links() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    let rows = "INSERT INTO links (code, url) SELECT md5(number::text), 'https://example.com/' \
        FROM generate_series(1, 20000) AS number; ANALYZE links";
    connection.execute(rows).await.unwrap();
    let mut process = start(&["check-links"], &[("DATABASE_URL", &url)]);
    assert_eq!(process.event("checked").await["links"], 20);
    assert!(process.exit().await.success());
    // The server counts when the session of the program has ended.
    let read = "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables \
        WHERE relname = 'links'";
    let mut count = 0;
    while count == 0 {
        let read = sqlx::query_scalar::<_, i64>(read);
        count = read.fetch_one(&mut connection).await.unwrap();
    }
    assert!(count < 5_000, "{count}");
}
