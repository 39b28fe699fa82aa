//! The audit log of management, by `/api/admin/audit`.

use jiff::Timestamp;
use serde_json::{Value, json};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection};

use crate::{
    client::{get, shorten},
    management::{administer, manage, managed},
    support::App,
};

/// Returns the entries of a page without their numbers and times, which have to fall.
async fn entries(app: &App, query: &str) -> Vec<Value> {
    let page = page(app, query).await;
    let mut entries = page["entries"].as_array().unwrap().clone();
    let number = |entry: &Value| entry["id"].as_i64().unwrap();
    assert!(entries.is_sorted_by(|one, next| number(one) > number(next)));
    for entry in &mut entries {
        let entry = entry.as_object_mut().unwrap();
        let at = entry.remove("at").unwrap();
        let _: Timestamp = at.as_str().unwrap().parse().unwrap();
        entry.remove("id");
    }
    entries
}

async fn page(app: &App, query: &str) -> Value {
    let listed = administer(app, "GET", &format!("/api/admin/audit{query}"), None).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    assert_eq!(listed.header("cache-control"), Some("no-store"));
    listed.json()
}

fn entry(action: &str, reason: Option<&str>, detail: Value) -> Value {
    json!({"by": "desk", "action": action, "subject": "spam", "reason": reason, "detail": detail})
}

async fn link(app: &App, code: &str) {
    let link = json!({"url": "https://example.com/secret", "code": code});
    shorten(app.public, link).await;
}

/// Makes a change that has to succeed.
async fn change(app: &App, method: &str, path: &str, body: Option<Value>) {
    let changed = manage(app, method, path, body).await;
    assert!(changed.status < 300, "{changed:?}");
}

/// Makes changes of the link `spam`. Where one is made twice, the second one changes nothing.
async fn change_it_in_every_way(app: &App, end: &str) {
    let why = |reason: &str| Some(json!({"reason": reason}));
    let campaign = json!({"expires_at": end, "reason": "campaign"});
    change(app, "PATCH", "/spam", Some(campaign)).await;
    change(app, "PATCH", "/spam", Some(json!({"expires_at": null}))).await;
    let order = json!({"reason": "order 9", "legal": true, "notice": "By order"});
    for _ in 0..2 {
        change(app, "POST", "/spam/disable", Some(order.clone())).await;
    }
    for _ in 0..2 {
        change(app, "POST", "/spam/enable", why("order 9 was lifted")).await;
    }
    change(app, "POST", "/spam/disable", why("phishing")).await;
    change(app, "POST", "/spam/enable", None).await;
    for _ in 0..2 {
        change(app, "DELETE", "/spam", why("ticket 7")).await;
    }
    for (method, path) in [("DELETE", "/nothing"), ("POST", "/spam/enable")] {
        let refused = manage(app, method, path, None).await;
        assert!(refused.status >= 400, "{refused:?}");
    }
}

#[tokio::test]
async fn every_change_of_a_link_is_one_entry_with_who_when_what_and_why() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    link(&app, "spam").await;
    let nothing = json!({"entries": [], "next": null});
    assert_eq!(page(&app, "").await, nothing, "a creation is no entry");
    let end = "2030-01-31T12:00:00Z";
    change_it_in_every_way(&app, end).await;
    let (none, order, lifted) = (json!(null), "order 9", "order 9 was lifted");
    let expiry = |from: Option<&str>, to: Option<&str>| json!({"previous_expires_at": from, "expires_at": to});
    let takedown = |legal: bool, notice: Option<&str>| json!({"legal": legal, "notice": notice});
    let by_order = takedown(true, Some("By order"));
    let (lasts, ends) = (expiry(Some(end), None), expiry(None, Some(end)));
    let expected = [
        entry("link_deleted", Some("ticket 7"), none.clone()),
        entry("link_enabled", None, none.clone()),
        entry("link_disabled", Some("phishing"), takedown(false, None)),
        entry("link_enabled", Some(lifted), none),
        entry("link_disabled", Some(order), by_order),
        entry("link_expiry_changed", None, lasts),
        entry("link_expiry_changed", Some("campaign"), ends),
    ];
    assert_eq!(entries(&app, "").await, expected);
    let text = page(&app, "").await.to_string();
    assert!(!text.contains("secret"), "a destination: {text}");
    let deleted = manage(&app, "GET", "/spam", None).await.json();
    assert_eq!(deleted["disabled"]["reason"], "ticket 7");
}

#[tokio::test]
async fn entries_are_found_by_each_of_their_properties_and_page_by_page() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let mut connection = database.connect().await.unwrap();
    let rows = "INSERT INTO audit_log (at, actor, action, subject) SELECT \
        '2030-01-01T00:00:00Z'::timestamptz + n * interval '1 day', CASE WHEN n % 2 = 0 THEN 'desk' ELSE 'pod/a' END, \
        CASE WHEN n % 3 = 0 THEN 'link_deleted' ELSE 'dead_letter_dropped' END, 's' || n % 5 FROM generate_series(0, 29) n";
    connection.execute(rows).await.unwrap();
    for (query, count) in [
        ("", 30),
        ("?by=desk", 15),
        ("?by=pod%2Fa", 15),
        ("?subject=s4", 6),
        ("?action=link_deleted", 10),
        ("?by=desk&action=link_deleted", 5),
        ("?since=2030-01-11T00:00:00Z", 20),
        ("?until=2030-01-11T00:00:00Z", 10),
        ("?since=2030-01-11T00:00:00Z&until=2030-01-12T00:00:00Z", 1),
        ("?by=shop", 0),
    ] {
        assert_eq!(entries(&app, query).await.len(), count, "{query}");
    }
    let (mut after, mut numbers) = (String::new(), Vec::new());
    for length in [7, 7, 1] {
        let page = page(&app, &format!("?by=desk&limit=7{after}")).await;
        let entries = page["entries"].as_array().unwrap();
        assert_eq!(entries.len(), length);
        numbers.extend(entries.iter().map(|entry| entry["id"].as_i64().unwrap()));
        after = match page["next"].as_str() {
            Some(next) => format!("&after={next}"),
            None => String::new(),
        };
    }
    assert_eq!(after, "");
    let expected: Vec<i64> = (1..=30).rev().filter(|number| number % 2 == 1).collect();
    assert_eq!(numbers, expected);
    let refused = administer(&app, "GET", "/api/admin/audit?who=desk", None).await;
    refused.problem(400, "invalid-fields");
}

async fn execute(connection: &mut PgConnection, statement: &'static str) {
    connection.execute(statement).await.unwrap();
}

#[tokio::test]
async fn there_is_no_change_without_its_entry_and_no_entry_without_its_change() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    link(&app, "kept").await;
    let mut connection = database.connect().await.unwrap();
    for (refuse, permit) in [
        (
            "ALTER TABLE audit_log ADD CONSTRAINT refused CHECK (false)",
            "ALTER TABLE audit_log DROP CONSTRAINT refused",
        ),
        (
            "ALTER TABLE links ADD CONSTRAINT refused CHECK (disabled_at IS NULL)",
            "ALTER TABLE links DROP CONSTRAINT refused",
        ),
    ] {
        execute(&mut connection, refuse).await;
        let takedown = Some(json!({"reason": "phishing"}));
        let refused = manage(&app, "POST", "/kept/disable", takedown).await;
        refused.problem(500, "internal");
        execute(&mut connection, permit).await;
        assert_eq!(get(app.public, "/kept").await.status, 302);
        assert_eq!(entries(&app, "").await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn a_reason_is_a_text_and_may_be_left_out_with_the_whole_body() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    link(&app, "a").await;
    for (method, path) in [("POST", "/a/enable"), ("PATCH", "/a"), ("DELETE", "/a")] {
        let body = json!({"reason": 7, "ttl_seconds": 60});
        let refused = manage(&app, method, path, Some(body)).await;
        let problem = refused.problem(400, "invalid-fields");
        assert_eq!(problem["errors"][0]["field"], "reason");
    }
    for (method, path) in [("POST", "/a/enable"), ("DELETE", "/a")] {
        let refused = manage(&app, method, path, Some(json!([]))).await;
        refused.problem(400, "malformed-json");
        change(&app, method, path, None).await;
    }
}
