//! Servers that follow the database: links are read from them while the database is down.

use serde_json::json;
use shortener_testing::{
    database::TestDatabase,
    metrics::{value, wait_for},
    proxy::Path,
};

use crate::{
    client::{get, post, shorten},
    support::{App, proxy_before},
};

const TARGET: &str = "https://example.com/";
const LINK: &str = r#"{"url":"https://example.com/"}"#;

#[tokio::test]
async fn links_redirect_from_a_replica_while_the_database_is_down() {
    let database = TestDatabase::new().await;
    let (proxy, options) = proxy_before(&database).await;
    // The same database by another way stands for a server that has copied everything.
    let app = App::start_with(&options, |config| {
        config.replica.database_replica_host = Some(database.get_host().to_owned());
        config.replica.database_replica_port = Some(database.get_port());
    })
    .await;
    let code = shorten(app.public, json!({"url": TARGET})).await;
    wait_for(app.internal, "database_replica_up 1").await;
    assert_eq!(get(app.public, &format!("/{code}")).await.status, 302);
    get(app.public, "/unknown-code")
        .await
        .problem(404, "not-found");
    assert_eq!(value(app.internal, "database_replica_links_total").await, 0);

    for path in [Path::Refused, Path::Silent, Path::Gone] {
        proxy.set(path);
        let redirect = get(app.public, &format!("/{code}")).await;
        assert_eq!(redirect.status, 302, "{path:?}");
        assert_eq!(redirect.header("location"), Some(TARGET));
        wait_for(app.internal, "database_up 0").await;
        // A copy may lack a new link, so it cannot deny one. And nobody writes to it.
        get(app.public, "/unknown-code")
            .await
            .problem(503, "database-unavailable");
        post(app.public, "/shorten", LINK)
            .await
            .problem(503, "database-unavailable");
        proxy.set(Path::Open);
        wait_for(app.internal, "database_up 1").await;
    }
    assert_eq!(value(app.internal, "database_replica_links_total").await, 3);
    get(app.public, "/unknown-code")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_replica_that_is_away_changes_nothing() {
    let database = TestDatabase::new().await;
    let (proxy, away) = proxy_before(&database).await;
    proxy.set(Path::Refused);
    let app = App::start_with(&database, |config| {
        config.replica.database_replica_host = Some(away.get_host().to_owned());
        config.replica.database_replica_port = Some(away.get_port());
    })
    .await;
    let code = shorten(app.public, json!({"url": TARGET})).await;
    assert_eq!(get(app.public, &format!("/{code}")).await.status, 302);
    get(app.public, "/unknown-code")
        .await
        .problem(404, "not-found");
    assert_eq!(value(app.internal, "database_replica_up").await, 0);
}
