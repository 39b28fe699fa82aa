//! Clicks: what is counted, and how the API shows it.

mod exact;

use std::net::SocketAddr;

use serde_json::{Value, json};
use shortener_testing::{broker::until, database::TestDatabase};
use sqlx::{ConnectOptions, Executor};

use crate::{
    cache::cache_is_up,
    cache_server::Redis,
    client::{get, request, shorten},
    management::{Keys, administer, managed},
    pages::expire_one,
    support::App,
};

const BROWSER: &str =
    "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n";
const CRAWLER: &str =
    "user-agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\r\n";
const URL: &str = "https://example.com/";

/// The counts of people and of programs in the database, by code.
async fn stored(database: &TestDatabase) -> Vec<(String, i64, i64)> {
    let mut connection = database.connect().await.unwrap();
    let rows = "SELECT code, sum(people)::bigint, sum(bots)::bigint FROM clicks GROUP BY code ORDER BY code";
    let rows = sqlx::query_as(rows).fetch_all(&mut connection).await;
    rows.unwrap()
}

fn counts(code: &str, people: i64, bots: i64) -> Vec<(String, i64, i64)> {
    vec![(code.to_owned(), people, bots)]
}

/// Creates a link with this code.
async fn link(app: &App, code: &str) {
    shorten(app.public, json!({"url": URL, "code": code})).await;
}

/// Sends a GET as a browser does, and returns the status.
async fn browse(address: SocketAddr, path: &str) -> u16 {
    request(address, "GET", path, BROWSER).await.status
}

#[tokio::test]
async fn a_redirect_to_a_destination_is_a_click_and_nothing_else_is() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        let target = http::HeaderValue::from_static("https://www.example.com/");
        config.links.links_root_target = Some(target.clone());
        config.links.links_unknown_target = Some(target.clone());
        config.links.links_expired_target = Some(target);
    })
    .await;
    link(&app, "a").await;
    expire_one(&database, &app).await;
    for (method, path, headers, status) in [
        ("GET", "/a", BROWSER, 302),
        ("GET", "/a?from=mail", BROWSER, 302),
        ("GET", "/%61", BROWSER, 302),
        ("GET", "/a", CRAWLER, 302),
        ("GET", "/a", "", 302),
        ("HEAD", "/a", BROWSER, 302),
        ("GET", "/a", "sec-purpose: prefetch;prerender\r\n", 302),
        ("GET", "/a", "purpose: prefetch\r\n", 302),
        ("GET", "/a", "x-moz: prefetch\r\n", 302),
        ("GET", "/a+", BROWSER, 200),
        ("GET", "/", BROWSER, 302),
        ("GET", "/unknown", BROWSER, 302),
        ("GET", "/ended", BROWSER, 302),
        ("DELETE", "/a", BROWSER, 405),
    ] {
        let response = request(app.public, method, path, headers).await;
        assert_eq!(response.status, status, "{method} {path} {headers}");
    }
    assert!(app.stop().await.unwrap());
    assert_eq!(stored(&database).await, counts("a", 3, 2));
}

#[tokio::test]
async fn a_redirect_that_a_limit_takes_back_is_no_click() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let mut apps = Vec::new();
    for _ in 0..2 {
        let app = App::start_with(&database, |config| {
            cache.configure(config);
            config.limit_requests_per_second = 1;
            config.limit_requests_burst = 30;
        });
        apps.push(app.await);
    }
    for app in &apps {
        cache_is_up(app).await;
    }
    let mut connection = database.connect().await.unwrap();
    let row = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(row).await.unwrap();
    let (mut followed, mut refused) = (0, 0);
    for _ in 0..40 {
        for app in &apps {
            match browse(app.public, "/a").await {
                302 => followed += 1,
                429 => refused += 1,
                other => panic!("{other}"),
            }
        }
    }
    assert!(followed >= 30 && refused > 0, "{followed} {refused}");
    for app in apps {
        assert!(app.stop().await.unwrap());
    }
    assert_eq!(stored(&database).await, counts("a", followed, 0));
}

/// Sends a GET with the key of `desk`, and returns the body.
async fn read(app: &App, path: &str) -> Value {
    let response = administer(app, "GET", path, None).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    response.json()
}

/// Starts an app with the links `a`, `b` and `c`, and waits until it has stored one click and a program's on `a`, and two
/// on `b`.
async fn clicked(database: &TestDatabase) -> (App, Keys) {
    let (app, keys) = managed(database).await;
    for code in ["a", "b", "c"] {
        link(&app, code).await;
    }
    for path in ["/a", "/b", "/b"] {
        assert_eq!(browse(app.public, path).await, 302);
    }
    assert_eq!(request(app.public, "GET", "/a", CRAWLER).await.status, 302);
    let expected = [counts("a", 1, 1), counts("b", 2, 0)].concat();
    until("the clicks", async || {
        let found = stored(database).await;
        (found == expected)
            .then_some(())
            .ok_or(format!("{found:?}"))
    })
    .await;
    (app, keys)
}

#[tokio::test]
async fn clicks_are_shown_for_each_day_of_a_period() {
    let database = TestDatabase::new().await;
    let (app, _keys) = clicked(&database).await;
    let clicks = read(&app, "/api/admin/links/b/clicks").await;
    assert_eq!((&clicks["people"], &clicks["bots"]), (&json!(2), &json!(0)));
    let days = clicks["days"].as_array().unwrap();
    let last = json!({"day": clicks["to"], "people": 2, "bots": 0});
    assert_eq!(
        (days.len(), &days[29], &days[0]["people"]),
        (30, &last, &json!(0))
    );
    assert_eq!(days[0]["day"], clicks["from"]);
    let none = read(
        &app,
        "/api/admin/links/b/clicks?to=2029-01-07&from=2029-01-01",
    )
    .await;
    assert_eq!(
        (&none["people"], &none["days"][6]["day"]),
        (&json!(0), &json!("2029-01-07"))
    );
}

#[tokio::test]
async fn links_and_lists_show_their_clicks_and_the_most_clicked_come_first() {
    let database = TestDatabase::new().await;
    let (app, _keys) = clicked(&database).await;
    assert_eq!(
        read(&app, "/api/admin/links/a").await["clicks"],
        json!({"people": 1, "bots": 1})
    );
    let page = read(&app, "/api/admin/links?host=example.com").await;
    let listed: Vec<&Value> = page["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| &link["clicks"])
        .collect();
    let expected =
        [(1, 1), (2, 0), (0, 0)].map(|(people, bots)| json!({"people": people, "bots": bots}));
    assert_eq!(listed, expected.iter().collect::<Vec<_>>());
    let top = read(&app, "/api/admin/clicks/top").await;
    let expected = json!([
        {"code": "b", "short_url": "http://sho.rt:8080/b", "url": URL, "people": 2, "bots": 0},
        {"code": "a", "short_url": "http://sho.rt:8080/a", "url": URL, "people": 1, "bots": 1},
    ]);
    assert_eq!(top["links"], expected);
    let one = read(&app, "/api/admin/clicks/top?limit=1").await;
    assert_eq!(one["links"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_question_about_clicks_that_has_no_answer_says_why() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    link(&app, "a").await;
    for (path, status, kind) in [
        ("/api/admin/links/none/clicks", 404, "not-found"),
        ("/api/admin/links/a/clicks?from=soon", 400, "invalid-fields"),
        (
            "/api/admin/clicks/top?from=2029-01-01&to=2029-02-01",
            400,
            "invalid-fields",
        ),
    ] {
        administer(&app, "GET", path, None)
            .await
            .problem(status, kind);
    }
    get(app.public, "/api/admin/links/a/clicks")
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn a_service_that_counts_no_clicks_says_so() {
    let database = TestDatabase::new().await;
    let keys = Keys::new();
    let app = App::start_with(&database, |config| {
        keys.configure(config);
        config.clicks_enabled = false;
    })
    .await;
    link(&app, "a").await;
    assert_eq!(browse(app.public, "/a").await, 302);
    for path in ["/api/admin/links/a/clicks", "/api/admin/clicks/top"] {
        let response = administer(&app, "GET", path, None).await;
        response.problem(501, "clicks-disabled");
    }
    let link = administer(&app, "GET", "/api/admin/links/a", None).await;
    assert_eq!(link.json().get("clicks"), None);
    assert!(app.stop().await.unwrap());
    assert_eq!(stored(&database).await, []);
}
