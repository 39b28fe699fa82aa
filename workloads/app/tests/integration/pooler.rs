//! The app with its database behind PgBouncer.

use std::{env, time::Duration};

use futures::future::join_all;
use shortener_app::store::migrate::migrate;
use shortener_testing::{
    database::TestDatabase,
    servers::{self, Server},
};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};
use tokio::process::Command;

use crate::{
    client::{get, post},
    process::{addresses, start},
    support::url_of,
};

/// Returns the options of a connection to the same database through a pooler.
fn behind(pooler: &'static Server<1>, database: &PgConnectOptions) -> PgConnectOptions {
    let [url] = pooler.addresses().unwrap_or_else(|error| panic!("{error}"));
    let pooler: PgConnectOptions = url.parse().unwrap();
    database
        .clone()
        .host(pooler.get_host())
        .port(pooler.get_port())
}

/// Starts the programs as a stack with a pooler does, and creates a link and follows it.
async fn serves(url: &str) {
    let settings = [("DATABASE_URL", url), ("DATABASE_POOLER", "transaction")];
    let migrated = start(&["migrate"], &settings);
    assert!(migrated.exit().await.success());
    let addresses_of_its_own = [
        ("APP_LISTEN", "127.0.0.1:0"),
        ("APP_INTERNAL_LISTEN", "127.0.0.1:0"),
    ];
    let environment = [&settings[..], &addresses_of_its_own].concat();
    let mut process = start(&["serve"], &environment);
    let (public, _) = addresses(&mut process).await;
    let link = r#"{"url":"https://example.com/","code":"pooled"}"#;
    let created = post(public, "/shorten", link).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(get(public, "/pooled").await.status, 302);
    process.terminate().await;
    assert!(process.exit().await.success());
}

/// Runs tests of this program again, and the app in them asks its database through PgBouncer.
#[tokio::test]
async fn links_of_clients_and_of_objects_and_jobs_are_the_same_behind_a_pooler() {
    let addresses = || {
        let [pooler] = servers::POOLER.addresses()?;
        let [broker, api, metrics] = servers::BROKER.addresses()?;
        anyhow::Ok([pooler, broker, api, metrics])
    };
    let [pooler, broker, api, metrics] = addresses().unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(env::current_exe().unwrap())
        .args(["links::", "jobs::", "management_port::ownership::"])
        .arg("--test-threads=2")
        .env("TEST_DATABASE_URL", pooler)
        .env("TEST_BROKER_URL", broker)
        .env("TEST_BROKER_API", api)
        .env("TEST_BROKER_METRICS", metrics)
        .env("DATABASE_POOLER", "transaction")
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for test in [
        "links::a_created_link_redirects_to_exactly_the_given_url",
        "links::migrations_may_run_again_at_the_same_time_and_under_a_newer_schema",
        "jobs::",
        "management_port::ownership::of_two_objects_one_gets_the_code",
    ] {
        assert!(text.contains(&format!("test {test}")), "{test}: {text}");
    }
}

#[tokio::test]
async fn migrations_through_a_pooler_leave_no_lock_behind_and_close_no_session() {
    let database = TestDatabase::new().await;
    let options = behind(&servers::POOLER, &database);
    let runs = (0..8).map(|_| migrate(options.clone(), Duration::from_secs(300)));
    for run in join_all(runs).await {
        run.unwrap();
    }
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let mut connection = database.connect().await.unwrap();
    let locks = sqlx::query_scalar::<_, i64>(locks).fetch_one(&mut connection);
    assert_eq!(locks.await.unwrap(), 0);
    // Those of the pooler, and this one.
    let sessions = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()";
    let sessions = sqlx::query_scalar::<_, i64>(sessions).fetch_one(&mut connection);
    let sessions = sessions.await.unwrap();
    assert!(sessions <= 6, "{sessions}");
}

#[tokio::test]
async fn without_the_setting_the_refusal_of_a_pooler_is_named_at_once() {
    let database = TestDatabase::new().await;
    let url = url_of(&behind(&servers::POOLER, &database));
    let refused = Command::new(env!("CARGO_BIN_EXE_app"))
        .arg("migrate")
        .env("DATABASE_URL", &url)
        .env_remove("DATABASE_POOLER")
        .output()
        .await
        .unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    for part in [
        "cannot migrate the database",
        "set database.external.pooler to Transaction",
    ] {
        assert!(message.contains(part), "{message}");
    }
    serves(&url).await;
}

#[tokio::test]
async fn a_pooler_that_gives_each_client_a_session_works_as_well() {
    let database = TestDatabase::new().await;
    serves(&url_of(&behind(&servers::POOLER_OF_SESSIONS, &database))).await;
}
