//! The management of links by `/api/admin/links`.

use jiff::Timestamp;
use serde_json::{Value, json};
use shortener_app::{config::ServeArgs, scope::Scopes, store::management::Management};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};
use tempfile::TempDir;

use crate::{
    client::{Response, get, json_bytes, post, post_bytes, request, send, shorten, typed_bytes},
    keys::secret,
    process::{addresses, migrated, serving, start},
    support::{App, access},
};

const KEY: &str = "9b1f3c7a5d2e48f6b0a8c4e6d1f29375";
const OTHER: &str = "3e5d7f9a1b2c4d6e8f0a1b3c5d7e9f02";
const URL: &str = "https://example.com/a?b=c";

/// A Secret with a client `desk` that manages links, and a client `shop` that creates them.
pub struct Keys(TempDir);

impl Keys {
    pub fn new() -> Self {
        Self(secret(&[
            ("desk", KEY),
            ("shop", OTHER),
            ("shop.scopes", "shorten"),
        ]))
    }

    /// Leaves everything but management open.
    pub fn configure(&self, config: &mut ServeArgs) {
        config.auth.auth_keys_directory = vec![self.0.path().to_owned()];
        config.auth.auth_protect = Scopes::default();
    }
}

/// Sends a request about links with the key of `desk`.
pub async fn manage(app: &App, method: &str, path: &str, body: Option<Value>) -> Response {
    administer(app, method, &format!("/api/admin/links{path}"), body).await
}

/// Sends a request with the key of `desk`.
pub async fn administer(app: &App, method: &str, path: &str, body: Option<Value>) -> Response {
    let headers = format!("authorization: Bearer {KEY}\r\n");
    match body {
        Some(body) => {
            let body = body.to_string();
            let bytes = json_bytes(method, path, &headers, body.as_bytes());
            send(app.public, bytes).await
        }
        None => request(app.public, method, path, &headers).await,
    }
}

/// Sends lines of links with the key of `desk`.
pub async fn import(app: &App, query: &str, lines: &str) -> Response {
    let headers = format!("authorization: Bearer {KEY}\r\n");
    let path = format!("/api/admin/import/links{query}");
    let ndjson = "application/x-ndjson";
    send(
        app.public,
        typed_bytes("POST", &path, &headers, ndjson, lines.as_bytes()),
    )
    .await
}

/// Checks that the response is about a link in this state, and returns it.
#[track_caller]
fn in_state(response: &Response, state: &str) -> Value {
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let link = response.json();
    assert_eq!(link["state"], state, "{link}");
    link
}

pub async fn managed(database: &PgConnectOptions) -> (App, Keys) {
    let keys = Keys::new();
    let app = App::start_with(database, |config| keys.configure(config)).await;
    (app, keys)
}

/// Moves the expiry of every link into the past.
async fn expire_all(database: &PgConnectOptions) {
    let mut connection = database.connect().await.unwrap();
    connection
        .execute("UPDATE links SET expires_at = now() - interval '1 second'")
        .await
        .unwrap();
}

#[tokio::test]
async fn management_needs_a_key_with_its_scope_also_where_nothing_else_does() {
    let database = TestDatabase::new().await;
    let plain = App::start(&database).await;
    let (app, _keys) = managed(&database).await;
    let routes = [
        ("GET", "/api/admin/links"),
        ("POST", "/api/admin/links"),
        ("GET", "/api/admin/links/a"),
        ("PATCH", "/api/admin/links/a"),
        ("DELETE", "/api/admin/links/a"),
        ("POST", "/api/admin/links/a/disable"),
        ("POST", "/api/admin/links/a/enable"),
        ("GET", "/api/admin/dead-letters"),
        ("GET", "/api/admin/dead-letters/a"),
        ("POST", "/api/admin/dead-letters/replay"),
        ("POST", "/api/admin/dead-letters/drop"),
        ("GET", "/api/admin/audit"),
        ("GET", "/api/admin/export/links"),
        ("POST", "/api/admin/import/links"),
    ];
    for (method, path) in routes {
        for app in [&plain, &app] {
            let refused = request(app.public, method, path, "").await;
            refused.problem(401, "unauthorized");
        }
        let key = format!("x-api-key: {OTHER}\r\n");
        let refused = request(app.public, method, path, &key).await;
        refused.problem(403, "forbidden");
        let key = format!("x-api-key: {KEY}\r\n");
        let refused = request(plain.public, method, path, &key).await;
        let detail = refused.problem(401, "unauthorized")["detail"].to_string();
        assert!(detail.contains("gateway.auth"), "{detail}");
    }
}

#[tokio::test]
async fn a_link_is_shown_without_being_followed() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let body = json!({"url": "https://Bücher.example./x", "code": "mine", "ttl_seconds": 60});
    let headers = format!("authorization: Bearer {OTHER}\r\n");
    let body = body.to_string();
    let created = send(
        app.public,
        post_bytes("/shorten", &headers, body.as_bytes()),
    )
    .await;
    let created = created.json();
    let shown = in_state(&manage(&app, "GET", "/mine", None).await, "live");
    assert_eq!(
        shown,
        json!({
            "code": "mine",
            "url": "https://Bücher.example./x",
            "short_url": "http://sho.rt:8080/mine",
            "host": "xn--bcher-kva.example",
            "state": "live",
            "created_at": created["created_at"],
            "created_by": "shop",
            "expires_at": created["expires_at"],
            "disabled": null,
            "clicks": {"people": 0, "bots": 0},
            "template": false,
            "title": null,
            "tags": [],
            "note": null,
            "owner": null,
        })
    );
    expire_all(&database).await;
    in_state(&manage(&app, "GET", "/mine", None).await, "expired");
    let open = shorten(app.public, json!({"url": URL})).await;
    let shown = in_state(
        &manage(&app, "GET", &format!("/{open}"), None).await,
        "live",
    );
    assert_eq!(shown["created_by"], Value::Null);
    let escaped = manage(&app, "GET", "/%6Dine", None).await;
    in_state(&escaped, "expired");
    for nothing in ["/none", "/a.b", "/%2561", "/health"] {
        let missing = manage(&app, "GET", nothing, None).await;
        missing.problem(404, "not-found");
    }
}

#[tokio::test]
async fn a_disabled_link_is_gone_until_it_is_enabled() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(app.public, json!({"url": URL, "code": "spam"})).await;
    for reason in ["phishing", "another reason"] {
        let body = Some(json!({"reason": reason}));
        let disabled = manage(&app, "POST", "/spam/disable", body).await;
        let link = in_state(&disabled, "disabled");
        assert_eq!(
            (&link["url"], &link["host"]),
            (&json!(URL), &json!("example.com"))
        );
        assert_eq!(link["purged"], true);
        let takedown = &link["disabled"];
        assert_eq!(
            (&takedown["by"], &takedown["as"], &takedown["notice"]),
            (&json!("desk"), &json!("gone"), &Value::Null)
        );
        assert_eq!(takedown["reason"], "phishing", "the first reason stays");
        assert!(takedown["at"].is_string());
    }
    let preview = get(app.public, "/spam+").await;
    preview.problem(410, "link-disabled");
    let gone = get(app.public, "/spam").await;
    let problem = gone.problem(410, "link-disabled");
    assert!(!problem.to_string().contains("phishing"), "{problem}");
    let again = json!({"url": URL, "code": "spam"}).to_string();
    let taken = post(app.public, "/shorten", again).await;
    taken.problem(409, "code-taken");
    let reused = json!({"url": URL, "reuse": true});
    assert_ne!(shorten(app.public, reused).await, "spam");

    for _ in 0..2 {
        let enabled = manage(&app, "POST", "/spam/enable", None).await;
        assert_eq!(in_state(&enabled, "live")["disabled"], Value::Null);
        let followed = get(app.public, "/spam").await;
        assert_eq!(followed.header("location"), Some(URL));
    }
}

#[tokio::test]
async fn a_link_that_is_disabled_for_legal_reasons_shows_its_notice() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let notice = "By order of a court, \"7 <b>C</b> 1\".";
    let body = json!({"reason": "ticket 9", "legal": true, "notice": notice});
    let disabled = manage(&app, "POST", &format!("/{code}/disable"), Some(body)).await;
    assert_eq!(in_state(&disabled, "disabled")["disabled"]["as"], "legal");
    let blocked = get(app.public, &format!("/{code}")).await;
    let problem = blocked.problem(451, "unavailable-for-legal-reasons");
    assert_eq!(problem["detail"], notice);
    assert_eq!(
        blocked.header("link"),
        Some("<http://sho.rt:8080>; rel=\"blocked-by\"")
    );
}

#[tokio::test]
async fn a_deleted_link_never_comes_back() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(app.public, json!({"url": URL, "code": "old"})).await;
    for _ in 0..2 {
        let deleted = manage(&app, "DELETE", "/old", None).await;
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    }
    let link = in_state(&manage(&app, "GET", "/old", None).await, "deleted");
    assert_eq!((&link["url"], &link["host"]), (&Value::Null, &Value::Null));
    assert_eq!(link["disabled"]["as"], "deleted");
    get(app.public, "/old").await.problem(410, "link-disabled");
    for (method, path, body) in [
        ("POST", "/old/disable", Some(json!({"reason": "spam"}))),
        ("POST", "/old/enable", None),
        ("PATCH", "/old", Some(json!({"ttl_seconds": 60}))),
    ] {
        let refused = manage(&app, method, path, body).await;
        refused.problem(409, "link-gone");
    }
    let again = json!({"url": URL, "code": "old"}).to_string();
    let taken = post(app.public, "/shorten", again).await;
    taken.problem(409, "code-taken");
    for (method, path, body) in [
        ("DELETE", "/none", None),
        ("POST", "/none/enable", None),
        ("POST", "/none/disable", Some(json!({"reason": "spam"}))),
        ("PATCH", "/none", Some(json!({"expires_at": null}))),
    ] {
        let missing = manage(&app, method, path, body).await;
        missing.problem(404, "not-found");
    }
}

#[tokio::test]
async fn an_expiry_can_be_moved_until_it_is_over() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(
        app.public,
        json!({"url": URL, "code": "brief", "ttl_seconds": 60}),
    )
    .await;
    let patch = |body| manage(&app, "PATCH", "/brief", Some(body));
    let lasting = in_state(&patch(json!({"expires_at": null})).await, "live");
    assert_eq!(lasting["expires_at"], Value::Null);
    let tomorrow = Timestamp::now().as_second() + 24 * 60 * 60;
    let later = Timestamp::from_second(tomorrow).unwrap().to_string();
    let moved = in_state(&patch(json!({"expires_at": later})).await, "live");
    assert_eq!(moved["expires_at"], later);
    for bad in [
        json!({}),
        json!({"ttl_seconds": 5}),
        json!({"url": "https://example.com/b", "ttl_seconds": 60}),
    ] {
        patch(bad).await.problem(400, "invalid-fields");
    }
    expire_all(&database).await;
    let refused = patch(json!({"expires_at": null})).await;
    refused.problem(409, "link-gone");
    let body = Some(json!({"reason": "order 7", "legal": true}));
    let disabled = manage(&app, "POST", "/brief/disable", body).await;
    in_state(&disabled, "disabled");
    get(app.public, "/brief")
        .await
        .problem(451, "unavailable-for-legal-reasons");
}

#[tokio::test]
async fn an_expired_link_without_a_destination_cannot_be_disabled_any_more() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    shorten(
        app.public,
        json!({"url": URL, "code": "brief", "ttl_seconds": 60}),
    )
    .await;
    expire_all(&database).await;
    let mut connection = database.connect().await.unwrap();
    let purge = "UPDATE links SET url = NULL";
    connection.execute(purge).await.unwrap();
    let body = Some(json!({"reason": "spam"}));
    let refused = manage(&app, "POST", "/brief/disable", body).await;
    refused.problem(409, "link-gone");
    let enabled = manage(&app, "POST", "/brief/enable", None).await;
    in_state(&enabled, "expired");
    let deleted = manage(&app, "DELETE", "/brief", None).await;
    assert_eq!(deleted.status, 204);
}

/// Follows a list to its end; returns the codes of its pages, which are separated by bars.
pub async fn pages(app: &App, query: &str) -> String {
    let mut pages = Vec::new();
    let mut after = String::new();
    loop {
        let listed = manage(app, "GET", &format!("?{query}{after}"), None).await;
        assert_eq!(listed.status, 200, "{listed:?}");
        let page = listed.json();
        let links = page["links"].as_array().unwrap();
        let codes = links.iter().map(|link| link["code"].as_str().unwrap());
        pages.push(codes.collect::<Vec<_>>().join(" "));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return pages.join(" | "),
        }
    }
}

#[tokio::test]
async fn links_are_listed_by_host_and_by_takedown() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    for (code, url) in [
        ("a", "https://bad.example/1"),
        ("b", "https://good.example/"),
        ("c", "https://BAD.example./2"),
        ("d", "http://bad.example:8080/3"),
        ("e", "https://sub.bad.example/"),
        ("f", "https://bad.example/4"),
    ] {
        shorten(app.public, json!({"url": url, "code": code})).await;
    }
    let of_host = "host=Bad.Example&limit=2";
    assert_eq!(pages(&app, of_host).await, "a c | d f");
    for code in ["f", "b", "a"] {
        let body = Some(json!({"reason": "spam"}));
        let disabled = manage(&app, "POST", &format!("/{code}/disable"), body).await;
        in_state(&disabled, "disabled");
    }
    manage(&app, "DELETE", "/d", None).await;
    for (query, listed) in [
        ("host=bad.example", "a c f"),
        ("host=bad.example&state=live", "c"),
        ("host=bad.example&state=disabled", "a f"),
        ("host=bad.example&state=expired", ""),
        ("state=disabled&limit=2", "f b | a"),
        ("state=deleted", "d"),
        ("host=none.example", ""),
    ] {
        assert_eq!(pages(&app, query).await, listed, "{query}");
    }
    for query in [
        "?state=deleted&host=a",
        "?host=bad.example&after=x",
        "?hosts=a",
    ] {
        let refused = manage(&app, "GET", query, None).await;
        refused.problem(400, "invalid-fields");
    }
}

#[tokio::test]
async fn a_link_that_the_cache_did_not_remove_is_due_again_unless_it_was_changed() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let (path, reason) = (format!("/{code}"), Some(json!({"reason": "spam"})));
    manage(&app, "POST", &format!("{path}/disable"), reason).await;
    let mut connection = database.connect().await.unwrap();
    let mut make_due = async || {
        let due = "UPDATE links SET purge_due_at = now() WHERE purge_due_at IS NOT NULL";
        connection.execute(due).await.unwrap();
    };
    let handle = access(&database).await;
    let management = Management::new(handle);
    make_due().await;
    let claimed = management.claim().await.unwrap();
    assert_eq!((claimed.len(), &claimed[0].code), (1, &code));
    assert_eq!(management.claim().await.unwrap(), [], "it is claimed");

    // The claim ends.
    make_due().await;
    let again = management.claim().await.unwrap();
    assert_eq!(again[0].code, code);
    // The end of an earlier claim ends no later one.
    management.purged(&claimed[0]).await.unwrap();
    make_due().await;
    let last = management.claim().await.unwrap();
    assert_eq!(last[0].code, code);

    manage(&app, "POST", &format!("{path}/enable"), None).await;
    management.purged(&last[0]).await.unwrap();
    make_due().await;
    let changed = management.claim().await.unwrap();
    assert_eq!(changed[0].code, code, "the change has a time of its own");
    management.purged(&changed[0]).await.unwrap();
    make_due().await;
    assert_eq!(management.claim().await.unwrap(), []);
}

#[tokio::test]
async fn many_links_are_created_at_once_with_a_result_each() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let links = json!([
        {"url": URL, "code": "one"},
        {"url": URL, "code": "one"},
        {"url": "javascript:alert(1)", "code": "a b"},
        "https://example.com/",
        {"url": URL, "reuse": true},
        {"url": "https://example.com/2"},
    ]);
    let response = manage(&app, "POST", "", Some(json!({"links": links}))).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let results = response.json();
    let results = results["results"].as_array().unwrap();
    let statuses: Vec<u64> = results
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 409, 400, 400, 200, 201]);
    assert_eq!(results[0]["link"]["short_url"], "http://sho.rt:8080/one");
    assert_eq!(results[1]["problem"]["type"], "/problems/code-taken");
    assert!(results[1].get("link").is_none() && results[0].get("problem").is_none());
    let fields = results[2]["problem"]["errors"].as_array().unwrap();
    assert_eq!(
        (&fields[0]["field"], &fields[1]["field"]),
        (&json!("url"), &json!("code"))
    );
    assert_eq!(results[4]["link"]["code"], "one");
    let last = results[5]["link"]["code"].as_str().unwrap();
    assert_eq!(get(app.public, &format!("/{last}")).await.status, 302);
    let shown = in_state(&manage(&app, "GET", "/one", None).await, "live");
    assert_eq!(shown["created_by"], "desk");

    let full: Vec<Value> = (0..100).map(|_| json!({"url": URL})).collect();
    let response = manage(&app, "POST", "", Some(json!({"links": full}))).await;
    let results = response.json();
    let results = results["results"].as_array().unwrap();
    assert_eq!(results.len(), 100);
    assert!(results.iter().all(|result| result["status"] == 201));
    for bad in [
        json!({}),
        json!({"links": []}),
        json!({"links": vec![json!({}); 101]}),
    ] {
        let refused = manage(&app, "POST", "", Some(bad)).await;
        refused.problem(400, "invalid-fields");
    }
}

#[tokio::test]
async fn clients_do_not_meet_each_other_s_idempotency_keys() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let create = async |key: &str, url: &str| {
        let headers = format!("{key}idempotency-key: 1\r\n");
        let body = json!({"url": url}).to_string();
        let bytes = post_bytes("/shorten", &headers, body.as_bytes());
        send(app.public, bytes).await
    };
    let mut codes = Vec::new();
    for (number, key) in ["", KEY, OTHER].into_iter().enumerate() {
        let header = match key {
            "" => String::new(),
            key => format!("x-api-key: {key}\r\n"),
        };
        let url = format!("https://example.com/{number}");
        let created = create(&header, &url).await;
        assert_eq!(created.status, 201, "{created:?}");
        assert_eq!(create(&header, &url).await.json(), created.json());
        codes.push(created.json()["code"].to_string());
    }
    assert!(codes[0] != codes[1] && codes[1] != codes[2] && codes[0] != codes[2]);
}

#[tokio::test]
async fn every_change_is_one_line_of_the_log_with_its_client() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let keys = Keys::new();
    let mut environment = serving(&url);
    let directory = keys.0.path().to_str().unwrap();
    environment.push(("AUTH_KEYS_DIRECTORY", directory));
    let mut process = start(&["serve"], &environment);
    let (public, _) = addresses(&mut process).await;
    let headers = format!("x-api-key: {KEY}\r\n");
    let ask = async |method: &str, path: &str, body: &str| {
        let response = send(public, json_bytes(method, path, &headers, body.as_bytes())).await;
        assert!(response.status < 300, "{response:?}");
    };
    let link = json!({"url": URL, "code": "spam"}).to_string();
    ask("POST", "/shorten", &link).await;
    for (method, path, body, event, reason) in [
        (
            "POST",
            "/api/admin/links/spam/disable",
            "{\"reason\":\"phishing\"}",
            "link_disabled",
            Some("phishing"),
        ),
        (
            "POST",
            "/api/admin/links/spam/enable",
            "{\"reason\":\"a mistake\"}",
            "link_enabled",
            Some("a mistake"),
        ),
        (
            "PATCH",
            "/api/admin/links/spam",
            "{\"ttl_seconds\":60}",
            "link_expiry_changed",
            None,
        ),
        ("DELETE", "/api/admin/links/spam", "", "link_deleted", None),
    ] {
        ask(method, path, body).await;
        let line = process.event(event).await;
        assert_eq!(line["auth.client"], "desk", "{line}");
        assert_eq!(line["link.code"], "spam", "{line}");
        assert_eq!(line["reason"].as_str(), reason, "{line}");
    }
    process.terminate().await;
    assert!(process.exit().await.success());
}

/// Returns a database with many links of a host in the way of those that are wanted.
async fn with_many(statements: &'static str) -> (TestDatabase, App, Keys) {
    let database = TestDatabase::new().await;
    let (app, keys) = managed(&database).await;
    let mut connection = database.connect().await.unwrap();
    connection.execute(statements).await.unwrap();
    (database, app, keys)
}

#[tokio::test]
async fn disabled_links_are_found_beside_many_deleted_ones() {
    let (database, app, _keys) = with_many(
        "INSERT INTO links (code, disabled_at, disabled_as) \
            SELECT 'x' || n, now() - interval '1 day', 'deleted' FROM generate_series(1, 3000) n; \
        INSERT INTO links (code, disabled_url, disabled_at, disabled_as) \
            VALUES ('a', 'https://example.com/', now(), 'gone'), ('b', 'https://example.com/', now(), 'legal'); \
        ANALYZE links",
    )
    .await;
    assert_eq!(pages(&app, "state=disabled").await, "a b");
    let deleted = pages(&app, "state=deleted").await;
    assert_eq!(
        deleted
            .split_whitespace()
            .filter(|code| *code != "|")
            .count(),
        3000
    );
    let mut connection = database.connect().await.unwrap();
    let used = "SELECT count(*) FROM pg_stat_user_indexes \
        WHERE idx_scan > 0 AND indexrelname IN ('links_down', 'links_deleted')";
    // The server counts after a while.
    while sqlx::query_scalar::<_, i64>(used)
        .fetch_one(&mut connection)
        .await
        .unwrap()
        < 2
    {}
}

#[tokio::test]
async fn a_rare_state_among_many_links_of_a_host_is_found_page_by_page() {
    let (_database, app, _keys) = with_many(
        "INSERT INTO links (code, url, host, created_at) SELECT 'x' || n, 'https://a.example/', 'a.example', \
            now() - interval '1 hour' + n * interval '1 ms' FROM generate_series(1, 2500) n; \
        INSERT INTO links (code, url, host, expires_at) VALUES ('end', 'https://a.example/', 'a.example', now())",
    )
    .await;
    assert_eq!(
        pages(&app, "host=a.example&state=expired").await,
        " |  | end"
    );
    let live = pages(&app, "host=a.example&state=live").await;
    assert_eq!(
        live.split_whitespace().filter(|code| *code != "|").count(),
        2500
    );
    let every = pages(&app, "host=a.example").await;
    assert_eq!(every.split(" | ").count(), 26);
}
