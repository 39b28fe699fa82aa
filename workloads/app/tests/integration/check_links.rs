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
