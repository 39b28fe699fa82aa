//! The rules of the schema.

use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection};

use crate::support::App;

/// Returns the name of the check that a statement violates.
async fn violated(connection: &mut PgConnection, statement: &'static str) -> String {
    let error = connection.execute(statement).await.unwrap_err();
    let refusal = error.as_database_error().unwrap();
    refusal.constraint().unwrap_or_default().to_owned()
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
