//! Webhooks: the outbox and its management.

mod receiver;
mod sender;

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use shortener_app::{
    store::{
        management::Management,
        migrate::migrate,
        webhooks::{EXCESS_BATCH, Outbox, receivers},
    },
    webhooks::{Receivers, schedule::Failure},
};
use shortener_common::config::LIMITS;
use shortener_testing::database::TestDatabase;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};
use tokio::time::timeout;

use crate::{
    client::{get, shorten},
    management::{administer, import, manage, managed},
    process::start,
    support::{App, access, url_of},
};

const DELIVERIES: &str = "/api/admin/webhooks/deliveries";
const ALL: [&str; 4] = [
    "link.created",
    "link.deleted",
    "link.disabled",
    "link.expired",
];
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the setting with these receivers, each with its URL, for all events.
fn setting(receivers: &[(&str, &str)]) -> String {
    let receivers = receivers.iter();
    let receivers = receivers.map(|(name, url)| json!({"name": name, "url": url, "events": ALL}));
    Value::from_iter(receivers).to_string()
}

async fn apply(database: &PgConnectOptions, list: &str) {
    let receivers: Receivers = list.parse().unwrap();
    receivers::apply(database.clone(), &receivers)
        .await
        .unwrap();
}

/// Returns a new database with these receivers, and a connection to it.
async fn with_receivers(list: &[(&str, &str)]) -> (TestDatabase, PgConnection) {
    let database = TestDatabase::new().await;
    migrate((*database).clone(), PATIENCE).await.unwrap();
    apply(&database, &setting(list)).await;
    let connection = database.connect().await.unwrap();
    (database, connection)
}

/// Returns the rows of a query as text.
async fn rows(connection: &mut PgConnection, query: &str) -> Vec<String> {
    let query = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
    query.fetch_all(connection).await.unwrap()
}

/// Waits until a query returns these rows.
async fn until(connection: &mut PgConnection, query: &str, expected: &[&str]) {
    let wait = async { while rows(connection, query).await != expected {} };
    let waited = timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("{query} never returned {expected:?}"));
}

const EVENTS: &str =
    "SELECT receiver || ' ' || event || ' ' || code FROM webhook_deliveries ORDER BY id";

#[tokio::test]
async fn every_way_to_change_a_link_writes_its_event_and_enabling_writes_none() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let mut connection = database.connect().await.unwrap();
    let unheard = shorten(app.public, json!({"url": "https://example.com/0"})).await;
    apply(&database, &setting(&[("crm", "https://example.com/")])).await;
    let code = shorten(app.public, json!({"url": "https://example.com/a"})).await;
    let line = r#"{"code":"imported","url":"https://example.com/b"}"#;
    assert_eq!(import(&app, "", line).await.status, 200);
    // What is there already is no news.
    assert_eq!(import(&app, "", line).await.status, 200);
    let many = json!({"links": [{"url": "https://example.com/c", "code": "many"}]});
    assert_eq!(manage(&app, "POST", "", Some(many)).await.status, 200);
    for (method, path, status) in [
        ("POST", format!("/{code}/disable"), 200),
        ("POST", format!("/{code}/enable"), 200),
        ("POST", "/imported/disable".to_owned(), 200),
        ("DELETE", "/imported".to_owned(), 204),
        ("DELETE", format!("/{unheard}"), 204),
    ] {
        let reason = Some(json!({"reason": "ticket 7"}));
        let answer = manage(&app, method, &path, reason).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    let expected = [
        format!("crm link.created {code}"),
        "crm link.created imported".to_owned(),
        "crm link.created many".to_owned(),
        format!("crm link.disabled {code}"),
        "crm link.disabled imported".to_owned(),
        "crm link.deleted imported".to_owned(),
        format!("crm link.deleted {unheard}"),
    ];
    assert_eq!(rows(&mut connection, EVENTS).await, expected);
}

#[tokio::test]
async fn one_statement_announces_thousands_of_links_to_those_who_want_them() {
    let (database, mut connection) = with_receivers(&[]).await;
    let insert = |prefix: &str| {
        AssertSqlSafe(format!(
            "INSERT INTO links (code, url) SELECT '{prefix}' || n, 'https://example.com' FROM generate_series(1, 5000) n"
        ))
    };
    connection.execute(insert("a")).await.unwrap();
    let list = r#"[{"name":"all","url":"https://a.example/","events":["link.created"]},
        {"name":"none","url":"https://b.example/","events":["link.deleted"]}]"#;
    apply(&database, list).await;
    connection.execute(insert("b")).await.unwrap();
    let counts = "SELECT receiver || ' ' || count(*) FROM webhook_deliveries GROUP BY receiver";
    assert_eq!(rows(&mut connection, counts).await, ["all 5000"]);
}

#[tokio::test]
async fn a_message_that_is_being_sent_cannot_be_retried() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    apply(&database, &setting(&[("crm", "https://example.com/")])).await;
    let mut connection = database.connect().await.unwrap();
    let insert = "INSERT INTO webhook_deliveries (receiver, event, code, attempts) \
        VALUES ('crm', 'link.created', 'a', 1)";
    connection.execute(insert).await.unwrap();
    let outbox = Outbox::new(access(&database).await);
    let due = outbox.claim("crm", 1).await.unwrap();
    let path = format!("{DELIVERIES}/{}/retry", due[0].id);
    let refused = administer(&app, "POST", &path, None).await;
    refused.problem(409, "delivery-in-progress");
    let failure = Failure::without_answer("timeout");
    let pause = Some(Duration::from_secs(5));
    outbox.failed(&due[0], &failure, pause).await.unwrap();
    let retried = administer(&app, "POST", &path, None).await;
    assert_eq!(retried.json()["retried"], 1, "{retried:?}");
    // A sender that was lost keeps nobody from a retry after its lease.
    outbox.claim("crm", 1).await.unwrap();
    let end = "UPDATE webhook_deliveries SET next_at = now() - interval '1 s', leased_until = now() - interval '1 s'";
    connection.execute(end).await.unwrap();
    assert_eq!(administer(&app, "POST", &path, None).await.status, 200);
}

#[tokio::test]
async fn all_that_was_given_up_is_sent_again_by_one_request() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    apply(&database, &setting(&[("crm", "https://example.com/")])).await;
    let mut connection = database.connect().await.unwrap();
    let given_up = "INSERT INTO webhook_deliveries (receiver, event, code, attempts, given_up_at) \
        SELECT 'crm', 'link.created', 'a', 10, now() FROM generate_series(1, 1500)";
    connection.execute(given_up).await.unwrap();
    let path = "/api/admin/webhooks/deliveries/retry";
    for (retried, remaining) in [(1000, true), (500, false), (0, false)] {
        let answer = administer(&app, "POST", path, Some(json!({"receiver": "crm"}))).await;
        let expected = json!({"retried": retried, "remaining": remaining});
        assert_eq!(answer.json(), expected);
    }
    for (body, status) in [(json!({"receiver": "other"}), 404), (json!({}), 400)] {
        let answer = administer(&app, "POST", path, Some(body)).await;
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn the_numbers_of_deliveries_end_at_a_bound_and_a_few_are_found_among_many() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let list = [
        ("audit", "https://example.org/"),
        ("crm", "https://example.com/"),
    ];
    apply(&database, &setting(&list)).await;
    let mut connection = database.connect().await.unwrap();
    for statement in [
        "INSERT INTO webhook_deliveries (receiver, event, code, attempts) VALUES ('audit', 'link.created', 'early', 1)",
        "INSERT INTO webhook_deliveries (receiver, event, code, attempts, given_up_at) \
            SELECT 'crm', 'link.created', 'a', 10, now() FROM generate_series(1, 10001)",
        "INSERT INTO webhook_deliveries (receiver, event, code) VALUES ('crm', 'link.created', 'late')",
    ] {
        connection.execute(statement).await.unwrap();
    }
    let counts = administer(&app, "GET", "/api/admin/webhooks", None).await;
    let numbers = |receiver: &Value| {
        ["pending", "failing", "given_up"].map(|state| receiver[state].as_i64().unwrap())
    };
    let receivers = &counts.json()["receivers"];
    assert_eq!(numbers(&receivers[0]), [0, 1, 0]);
    assert_eq!(numbers(&receivers[1]), [1, 0, 10_000]);
    let codes = async |query: &str| {
        let list = administer(&app, "GET", &format!("{DELIVERIES}{query}"), None).await;
        let list = list.json();
        let deliveries = list["deliveries"].as_array().unwrap().iter();
        let codes = deliveries.map(|delivery| delivery["code"].as_str().unwrap().to_owned());
        let next = list["next"].as_str().map(str::to_owned);
        (codes.collect::<Vec<_>>(), next)
    };
    assert_eq!(codes("?receiver=audit").await.0, ["early"]);
    assert_eq!(codes("?state=failing").await.0, ["early"]);
    let (first, next) = codes("?limit=2").await;
    assert_eq!(first, ["late", "a"]);
    let (second, _) = codes(&format!("?limit=2&cursor={}", next.unwrap())).await;
    assert_eq!(second, ["a", "a"]);
}

#[tokio::test]
async fn the_app_tells_for_how_long_messages_have_been_due() {
    let list = [
        ("audit", "https://example.org/"),
        ("crm", "https://example.com/"),
    ];
    let (database, mut connection) = with_receivers(&list).await;
    let insert = "INSERT INTO webhook_deliveries (receiver, event, code, next_at, given_up_at) VALUES \
        ('crm', 'link.created', 'a', now() - interval '1 h', NULL), \
        ('crm', 'link.created', 'b', now() - interval '9 h', now()), \
        ('crm', 'link.created', 'c', now() - interval '1 min', NULL), \
        ('audit', 'link.created', 'd', now() + interval '1 h', NULL)";
    connection.execute(insert).await.unwrap();
    let app = App::start(&database).await;
    let found = async |receiver: &str| {
        let series = format!("webhook_overdue_seconds{{receiver=\"{receiver}\"}} ");
        loop {
            let metrics = get(app.internal, "/metrics").await.text();
            let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
            if let Some(value) = value {
                return value.parse::<u64>().unwrap();
            }
        }
    };
    let found = async { (found("audit").await, found("crm").await) };
    let (audit, crm) = timeout(PATIENCE, found).await.unwrap();
    assert_eq!(audit, 0);
    assert!((3600..9 * 3600).contains(&crm), "{crm}");
}

#[tokio::test]
async fn a_link_that_was_deleted_or_disabled_before_the_delivery_sends_no_destination() {
    let (database, mut connection) = with_receivers(&[("crm", "https://example.com/")]).await;
    for statement in [
        "INSERT INTO links (code, url) VALUES ('up', 'https://example.com/'), ('down', 'https://example.com/'), ('del', 'https://example.com/')",
        "INSERT INTO links (code, url, expires_at) VALUES ('old', 'https://example.com/', now() - interval '1 s')",
        "UPDATE links SET disabled_url = url, url = NULL, disabled_as = 'gone', disabled_at = now() WHERE code = 'down'",
        "UPDATE links SET url = NULL, host = NULL, disabled_as = 'deleted', disabled_at = now() WHERE code = 'del'",
    ] {
        connection.execute(statement).await.unwrap();
    }
    let outbox = Outbox::new(access(&database).await);
    let due = outbox.claim("crm", 100).await.unwrap();
    assert_eq!(due.len(), 6);
    for one in due {
        assert_eq!(one.url.is_some(), one.code == "up", "{one:?}");
    }
}

#[tokio::test]
async fn a_lost_sender_loses_nothing_and_a_late_one_removes_nothing() {
    let (database, mut connection) = with_receivers(&[("crm", "https://example.com/")]).await;
    let insert = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    let outbox = Outbox::new(access(&database).await);
    let first = outbox.claim("crm", 4).await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(outbox.claim("crm", 4).await.unwrap(), []);
    let end = "UPDATE webhook_deliveries SET next_at = now() - interval '1 s'";
    connection.execute(end).await.unwrap();
    let second = outbox.claim("crm", 4).await.unwrap();
    assert_eq!(second[0].message_id, first[0].message_id);
    outbox.delivered(&first[0]).await.unwrap();
    assert_eq!(rows(&mut connection, EVENTS).await.len(), 1);
    outbox.delivered(&second[0]).await.unwrap();
    assert_eq!(rows(&mut connection, EVENTS).await.len(), 0);
}

#[tokio::test]
async fn an_expiry_is_announced_once_and_a_receiver_hears_of_none_before_it_came() {
    let (database, mut connection) = with_receivers(&[("crm", "https://example.com/")]).await;
    for statement in [
        "UPDATE webhook_receivers SET expired_at = now() - interval '1 h'",
        "INSERT INTO links (code, url, expires_at) SELECT 'a' || n, 'https://example.com', now() - interval '9 min' FROM generate_series(1, 1500) n",
        "INSERT INTO links (code, url, expires_at) VALUES ('early', 'https://example.com', now() - interval '2 h'), ('later', 'https://example.com', now() + interval '1 h')",
        "INSERT INTO links (code, expires_at) VALUES ('purged', now() - interval '5 min')",
        "INSERT INTO links (code, expires_at, disabled_as, disabled_at) VALUES ('del', now() - interval '5 min', 'deleted', now())",
        "DELETE FROM webhook_deliveries",
    ] {
        connection.execute(statement).await.unwrap();
    }
    apply(
        &database,
        &setting(&[
            ("crm", "https://example.com/"),
            ("late", "https://example.org/"),
        ]),
    )
    .await;
    let outbox = Outbox::new(access(&database).await);
    for expected in [1000, 501, 0] {
        assert_eq!(outbox.announce_expired("crm").await.unwrap(), expected);
    }
    assert_eq!(outbox.announce_expired("late").await.unwrap(), 0);
    let identities = "SELECT message_id::text FROM webhook_deliveries ORDER BY code";
    let first = rows(&mut connection, identities).await;
    assert_eq!(BTreeSet::from_iter(&first).len(), 1501);
    // As after the restore of a backup of that time.
    for statement in [
        "DELETE FROM webhook_deliveries",
        "UPDATE webhook_receivers SET expired_at = now() - interval '1 h', expired_code = '' WHERE name = 'crm'",
    ] {
        connection.execute(statement).await.unwrap();
    }
    for expected in [1000, 501] {
        assert_eq!(outbox.announce_expired("crm").await.unwrap(), expected);
    }
    assert_eq!(rows(&mut connection, identities).await, first);
    let counts = "SELECT receiver || ' ' || count(*) || ' ' || count(DISTINCT code) FROM webhook_deliveries GROUP BY receiver";
    assert_eq!(rows(&mut connection, counts).await, ["crm 1501 1501"]);
    let odd = "SELECT code FROM webhook_deliveries WHERE code NOT LIKE 'a%'";
    assert_eq!(rows(&mut connection, odd).await, ["purged"]);
}

#[tokio::test]
async fn of_too_many_deliveries_those_that_were_given_up_go_first_and_those_that_wait_last() {
    let list = [
        ("audit", "https://example.org/"),
        ("crm", "https://example.com/"),
    ];
    let (database, mut connection) = with_receivers(&list).await;
    let insert = "INSERT INTO webhook_deliveries (receiver, event, code, attempts, given_up_at) VALUES \
        ('crm', 'link.created', 'waits-1', 0, NULL), ('crm', 'link.created', 'waits-2', 0, NULL), \
        ('crm', 'link.created', 'fails-1', 1, NULL), ('crm', 'link.created', 'fails-2', 2, NULL), \
        ('audit', 'link.created', 'other', 10, now()), \
        ('crm', 'link.created', 'given-1', 10, now()), ('crm', 'link.created', 'given-2', 1, now())";
    connection.execute(insert).await.unwrap();
    let outbox = Outbox::new(access(&database).await);
    let all = [
        "waits-1", "waits-2", "fails-1", "fails-2", "other", "given-1", "given-2",
    ];
    for (most, dropped, gone) in [
        (6, 0, &[][..]),
        (5, 1, &["given-1"]),
        (3, 2, &["given-1", "given-2", "fails-1"]),
        (
            1,
            2,
            &["given-1", "given-2", "fails-1", "fails-2", "waits-1"],
        ),
    ] {
        let found = outbox.drop_excess("crm", most).await.unwrap();
        let codes = rows(
            &mut connection,
            "SELECT code FROM webhook_deliveries ORDER BY id",
        )
        .await;
        let mut left = all.to_vec();
        left.retain(|code| !gone.contains(code));
        assert_eq!(
            (found, codes),
            (dropped, left.into_iter().map(str::to_owned).collect())
        );
    }
}

#[tokio::test]
async fn what_is_due_and_what_has_expired_is_found_by_indexes() {
    let (database, mut connection) = with_receivers(&[("crm", "https://example.com/")]).await;
    let expired = "INSERT INTO links (code, url, expires_at) VALUES ('a', 'https://a/', now())";
    connection.execute(expired).await.unwrap();
    // Of small tables, the whole is read more quickly.
    let only = [
        ("enable_seqscan", "off"),
        ("enable_sort", "off"),
        ("enable_bitmapscan", "off"),
    ];
    let outbox = Outbox::new(access(&(*database).clone().options(only)).await);
    outbox.announce_expired("crm").await.unwrap();
    assert_eq!(outbox.claim("crm", 4).await.unwrap().len(), 1);
    assert_eq!(outbox.receivers().await.unwrap().len(), 1);
    let expected = [
        "links_by_end",
        "webhook_deliveries_by_state",
        "webhook_deliveries_due",
    ];
    let used = format!(
        "SELECT indexrelname::text FROM pg_stat_user_indexes WHERE idx_scan > 0 \
        AND indexrelname IN ('{}') ORDER BY 1",
        expected.join("', '")
    );
    // The server counts after a while.
    until(&mut connection, &used, &expected).await;
}

#[tokio::test]
async fn a_receiver_that_is_removed_takes_its_deliveries_with_it() {
    let database = TestDatabase::new().await;
    let url = url_of(&database);
    let both = setting(&[("a", "https://a.example/"), ("b", "https://b.example/")]);
    let migrated = async |list: &str| {
        let environment = [("DATABASE_URL", url.as_str()), ("WEBHOOKS", list)];
        let process = start(&["migrate"], &environment);
        assert!(process.exit().await.success());
    };
    migrated(&both).await;
    let mut connection = database.connect().await.unwrap();
    let insert = "INSERT INTO links (code, url) VALUES ('x', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    assert_eq!(rows(&mut connection, EVENTS).await.len(), 2);
    let urls = "SELECT url FROM webhook_receivers ORDER BY url";
    let later = setting(&[("b", "https://c.example/")]);
    // A program that still has the other one may be the one that is right.
    migrated(&later).await;
    let expected = ["https://a.example/", "https://c.example/"];
    assert_eq!(rows(&mut connection, urls).await, expected);
    let age = "UPDATE webhook_receivers SET seen_at = now() - interval '6 min'";
    connection.execute(age).await.unwrap();
    migrated(&later).await;
    assert_eq!(rows(&mut connection, EVENTS).await, ["b link.created x"]);
    assert_eq!(rows(&mut connection, urls).await, ["https://c.example/"]);
    connection.execute(age).await.unwrap();
    migrated("[]").await;
    assert_eq!(rows(&mut connection, EVENTS).await.len(), 0);
}

#[tokio::test]
async fn a_sender_removes_a_receiver_with_many_deliveries_in_steps() {
    let (database, mut connection) = with_receivers(&[("old", "https://old.example/")]).await;
    for statement in [
        format!(
            "INSERT INTO webhook_deliveries (receiver, event, code) \
            SELECT 'old', 'link.created', 'a' FROM generate_series(0, {EXCESS_BATCH})"
        ),
        "UPDATE webhook_receivers SET seen_at = now() - interval '6 min'".to_owned(),
    ] {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    let outbox = Outbox::new(access(&database).await);
    let own = setting(&[("crm", "https://example.com/")]);
    let own: Receivers = own.parse().unwrap();
    let left = "SELECT name || ' ' || (SELECT count(*) FROM webhook_deliveries WHERE receiver = name) \
        FROM webhook_receivers ORDER BY name";
    for expected in [&["crm 0", "old 1"][..], &["crm 0"]] {
        outbox.store_receivers(&own).await.unwrap();
        assert_eq!(rows(&mut connection, left).await, expected);
    }
    let all = "SELECT count(*)::text FROM webhook_deliveries";
    assert_eq!(rows(&mut connection, all).await, ["0"]);
}

#[tokio::test]
async fn a_sender_does_not_wait_for_another_program_without_a_limit() {
    let (database, mut connection) = with_receivers(&[]).await;
    let lock = "SELECT pg_advisory_lock(hashtextextended('shortener-webhooks', 0))";
    connection.execute(lock).await.unwrap();
    let outbox = Outbox::new(access(&(*database).clone().options(LIMITS)).await);
    let stored = outbox.store_receivers(&"[]".parse().unwrap()).await;
    stored.unwrap_err();
    let waiting = "SELECT query FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event = 'advisory'";
    until(&mut connection, waiting, &[]).await;
}

#[tokio::test]
async fn the_outbox_never_has_the_name_of_a_person() {
    let (database, mut connection) = with_receivers(&[("crm", "https://example.com/")]).await;
    for statement in [
        "INSERT INTO links (code, url, created_by) VALUES ('a', 'https://example.com/', 'jane')",
        "UPDATE links SET disabled_url = url, url = NULL, disabled_as = 'gone', disabled_at = now(), disabled_by = 'jane', reason = 'jane'",
    ] {
        connection.execute(statement).await.unwrap();
    }
    let all = "SELECT webhook_deliveries::text FROM webhook_deliveries";
    let all = rows(&mut connection, all).await;
    assert!(all.len() == 2 && !all.concat().contains("jane"), "{all:?}");
    let due = Outbox::new(access(&database).await)
        .claim("crm", 4)
        .await
        .unwrap();
    assert!(!format!("{due:?}").contains("jane"));
    let cause = shortener_app::store::audit::Cause {
        by: "desk".to_owned(),
        reason: None,
    };
    let management = Management::new(access(&database).await);
    let erased = management.erase("jane", &cause).await.unwrap();
    assert!(!erased.remaining);
}
