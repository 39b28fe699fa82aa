//! The reserve of a database that is nearly full.

use shortener_testing::{
    broker::until,
    database::TestDatabase,
    metrics::{value, wait_for},
};
use sqlx::{ConnectOptions, Connection, Executor, postgres::PgConnectOptions};

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
    // With the schema, which the first app creates.
    app_of(database, size(database).await * 100 / percent).await
}

/// Starts an app for which the database has so many bytes, and waits until it has found out how many it uses.
async fn app_of(database: &PgConnectOptions, capacity: u64) -> App {
    let folder = secret(&[("shop", KEY)]);
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

/// Runs statements in a session of their own, whose end reports what it changed to the statistics.
async fn run(database: &PgConnectOptions, statements: &[&'static str]) {
    let mut connection = database.connect().await.unwrap();
    for statement in statements {
        connection.execute(*statement).await.unwrap();
    }
    connection.close().await.unwrap();
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

#[tokio::test]
async fn the_space_of_deleted_rows_is_free_for_rows_of_the_same_table() {
    let database = TestDatabase::new().await;
    drop(App::start(&database).await);
    // Small rows, and large ones whose payload lies in a file of its own.
    let jobs = "INSERT INTO jobs (message_id, task, payload, state, finished_at) \
        SELECT gen_random_uuid(), 'email', to_json((SELECT string_agg(md5(job::text || part), '') \
            FROM generate_series(1, CASE job % 50 WHEN 0 THEN 640 ELSE 8 END) AS part)), 'done', now() \
        FROM generate_series(1, 20000) AS job";
    run(&database, &[jobs]).await;
    run(&database, &["VACUUM ANALYZE"]).await;
    let full = size(&database).await;
    let capacity = full * 100 / 77;
    let reusable = r#"database_reusable_bytes{table="jobs"}"#;
    let app = app_of(&database, capacity).await;
    reserved(&post(app.public, "/jobs", "{}").await);
    assert!(value(app.internal, reusable).await < full / 50);
    drop(app);

    let deleted = "DELETE FROM jobs WHERE hashtext(message_id::text) % 5 <> 0";
    run(&database, &[deleted]).await;
    let app = app_of(&database, capacity).await;
    reserved(&post(app.public, "/jobs", "{}").await);
    drop(app);
    run(&database, &["VACUUM"]).await;
    assert!(size(&database).await > full * 9 / 10, "the files stay");
    let app = app_of(&database, capacity).await;
    let admitted = post(app.public, "/jobs", "{}").await;
    admitted.problem(501, "profile-disabled");
    reserved(&request(app.public, "PUT", "/docs/1", "").await);
    assert!(value(app.internal, reusable).await > full / 4);
}
