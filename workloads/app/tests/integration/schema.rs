//! The rules of the schema that the versions before and after a migration share.

use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection};

use crate::{
    client::{get, post},
    support::App,
};

/// Reads the link `taken`, as the version before the migration does, which takes a link without a destination for an
/// expired one.
const FIND: &str = "SELECT url, expires_at <= now() FROM links WHERE code = 'taken'";

/// Takes the link `taken` down, as the version after the migration does.
const DISABLE: &str = "UPDATE links SET disabled_url = url, url = NULL, disabled_at = now(), disabled_as = 'gone' \
    WHERE code = 'taken'";

/// Returns the name of the check that a statement violates.
async fn violated(connection: &mut PgConnection, statement: &'static str) -> String {
    let error = connection.execute(statement).await.unwrap_err();
    let refusal = error.as_database_error().unwrap();
    refusal.constraint().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_link_that_was_taken_down_is_gone_for_a_version_that_knows_nothing_of_it() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let link = r#"{"url":"https://example.com/","code":"taken"}"#;
    assert_eq!(post(app.public, "/shorten", link).await.status, 201);
    let mut connection = database.connect().await.unwrap();
    connection.execute(DISABLE).await.unwrap();
    let row: (Option<String>, Option<bool>) = sqlx::query_as(FIND)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(row, (None, None));
    get(app.public, "/taken")
        .await
        .problem(410, "link-disabled");
    post(app.public, "/shorten", link)
        .await
        .problem(409, "code-taken");
}

#[tokio::test]
async fn only_an_expiring_or_a_disabled_link_is_without_a_destination() {
    let database = TestDatabase::new().await;
    let _app = App::start(&database).await;
    let mut connection = database.connect().await.unwrap();
    for (statement, check) in [
        (
            "INSERT INTO links (code) VALUES ('a')",
            "links_have_a_destination_unless_gone",
        ),
        (
            "INSERT INTO links (code, url, disabled_at) VALUES ('a', 'https://a/', now())",
            "links_are_disabled_in_a_known_way",
        ),
        (
            "INSERT INTO links (code, disabled_at, disabled_as) VALUES ('a', now(), 'hidden')",
            "links_are_disabled_in_a_known_way",
        ),
        (
            "INSERT INTO links (code, disabled_at, disabled_as, disabled_url) \
             VALUES ('a', now(), 'gone', repeat('a', 2049))",
            "links_are_disabled_in_a_known_way",
        ),
    ] {
        assert_eq!(violated(&mut connection, statement).await, check);
    }
    for statement in [
        "INSERT INTO links (code, expires_at) VALUES ('b', now())",
        "INSERT INTO links (code, disabled_at, disabled_as) VALUES ('c', now(), 'deleted')",
    ] {
        connection.execute(statement).await.unwrap();
    }
}
