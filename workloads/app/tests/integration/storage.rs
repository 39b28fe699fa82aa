//! The reserve of a database that is nearly full.

use shortener_testing::{
    broker::until,
    database::TestDatabase,
    metrics::{value, wait_for},
};
use sqlx::{ConnectOptions, Connection, postgres::PgConnectOptions};

use crate::{
    client::{Response, get, post, post_bytes, request, send},
    keys::secret,
    support::App,
};

const LINK: &str = r#"{"url":"https://example.com/"}"#;
const KEY: &str = "1f0e4c8b2a6d49f7a3c5e1b09d7f6a52";

async fn size(database: &PgConnectOptions) -> u64 {
    let mut connection = database.connect().await.unwrap();
    let size = sqlx::query_scalar("SELECT pg_database_size(current_database())");
    let size: i64 = size.fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    size.unsigned_abs()
}

/// Starts an app for which the database is so full, in per cent, and waits until it has found that out.
async fn app_at(database: &PgConnectOptions, percent: u64) -> App {
    let folder = secret(&[("shop", KEY)]);
    // With the schema, which the first app creates.
    let capacity = size(database).await * 100 / percent;
    let app = App::start_with(database, |config| {
        config.database_capacity_bytes = Some(capacity);
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
        config.auth.auth_protect = Default::default();
    })
    .await;
    wait_for(app.internal, &format!("database_capacity_bytes {capacity}")).await;
    until("the size of the database", async || {
        let size = value(app.internal, "database_size_bytes").await;
        (size > 0).then_some(()).ok_or("0".to_owned())
    })
    .await;
    app
}

fn reserved(response: &Response) {
    response.problem(503, "storage-reserved");
    assert_eq!(response.header("retry-after"), Some("60"));
}

#[tokio::test]
async fn a_database_that_fills_up_takes_no_records_and_then_no_links_of_clients_without_a_key() {
    let database = TestDatabase::new().await;
    drop(App::start(&database).await);
    let mut codes = Vec::new();
    for (percent, records, links) in [(50, true, true), (77, false, true), (92, false, false)] {
        let app = app_at(&database, percent).await;
        // That there is neither a queue nor a vector store is found out afterwards.
        for response in [
            post(app.public, "/jobs", "{}").await,
            request(app.public, "PUT", "/docs/1", "").await,
        ] {
            match records {
                true => drop(response.problem(501, "profile-disabled")),
                false => reserved(&response),
            };
        }
        for response in [
            post(app.public, "/docs/query", "{}").await,
            request(app.public, "DELETE", "/docs/1", "").await,
        ] {
            response.problem(501, "profile-disabled");
        }
        let created = post(app.public, "/shorten", LINK).await;
        match links {
            true => codes.push(created.json()["code"].as_str().unwrap().to_owned()),
            false => reserved(&created),
        }
        let key = format!("authorization: Bearer {KEY}\r\n");
        let link = post_bytes("/shorten", &key, LINK.as_bytes());
        assert_eq!(send(app.public, link).await.status, 201);
        for code in &codes {
            assert_eq!(get(app.public, &format!("/{code}")).await.status, 302);
        }
    }
    assert_eq!(codes.len(), 2);
}
