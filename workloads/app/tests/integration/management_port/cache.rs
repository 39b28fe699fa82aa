//! Links of ShortLinks in the cache.

use serde_json::json;
use shortener_testing::database::TestDatabase;

use super::{KEY, URL, apply_one, release, wish, with};
use crate::{
    cache::{assert_redirects, cache_is_up},
    cache_server::{Redis, until},
    client::get,
    management::Keys,
    support::App,
};

/// An app with a cache, and what it needs.
struct World {
    app: App,
    cache: Redis,
    _database: TestDatabase,
    _keys: Keys,
}

async fn world() -> World {
    let (database, cache, keys) = (TestDatabase::new().await, Redis::start().await, Keys::new());
    let app = App::start_with(&database, |config| {
        keys.configure(config);
        cache.configure(config);
        config.management.management_key = Some(KEY.to_owned());
    })
    .await;
    cache_is_up(&app).await;
    World {
        app,
        cache,
        _database: database,
        _keys: keys,
    }
}

/// Asks for a code that is free until the cache says so.
async fn deny(World { app, cache, .. }: &World, code: &str) {
    assert_eq!(get(app.public, &format!("/{code}")).await.status, 404);
    let key = format!("{{link:{code}}}:none");
    until(true, || async { cache.ask(&["EXISTS", &key]).await }).await;
}

#[tokio::test]
async fn a_new_link_is_visible_at_once_after_its_code_was_denied() {
    let world = world().await;
    deny(&world, "sale").await;
    let app = &world.app;
    assert_eq!(apply_one(app, wish("sale", "1", "spring")).await, "created");
    assert_redirects(&get(app.public, "/sale").await, URL);
    assert_eq!(world.cache.link("sale").await.as_deref(), Some(URL));
    deny(&world, "off").await;
    let off = with(wish("off", "2", "off"), json!({"enabled": false}));
    assert_eq!(apply_one(app, off).await, "created");
    assert_eq!(get(app.public, "/off").await.status, 410);
}

#[tokio::test]
async fn a_repeated_request_ends_the_denial_that_a_lost_write_left() {
    let world = world().await;
    let app = &world.app;
    assert_eq!(apply_one(app, wish("sale", "1", "spring")).await, "created");
    // As if the replica had ended between the database and the cache.
    world.cache.ask::<()>(&["DEL", "link:sale"]).await;
    let denied = ["SET", "{link:sale}:none", "1", "EX", "15"];
    world.cache.ask::<()>(&denied).await;
    assert_eq!(get(app.public, "/sale").await.status, 404);
    assert_eq!(
        apply_one(app, wish("sale", "1", "spring")).await,
        "unchanged"
    );
    assert_redirects(&get(app.public, "/sale").await, URL);
}

#[tokio::test]
async fn a_link_that_is_disabled_expires_or_is_released_answers_so_at_once() {
    let world = world().await;
    let app = &world.app;
    for (code, change) in [
        ("off", json!({"enabled": false})),
        ("over", json!({"expires_at": "2020-01-01T00:00:00Z"})),
    ] {
        assert_eq!(apply_one(app, wish(code, code, code)).await, "created");
        assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
        apply_one(app, with(wish(code, code, code), change)).await;
        assert_eq!(get(app.public, &format!("/{code}")).await.status, 410);
    }
    assert_eq!(apply_one(app, wish("off", "off", "off")).await, "changed");
    assert_redirects(&get(app.public, "/off").await, URL);
    for policy in ["Disable", "Delete"] {
        assert_eq!(
            apply_one(app, wish(policy, policy, policy)).await,
            "created"
        );
        assert_redirects(&get(app.public, &format!("/{policy}")).await, URL);
        assert_eq!(release(app, policy, policy, policy).await, "released");
        assert_eq!(get(app.public, &format!("/{policy}")).await.status, 410);
    }
}
