//! Webhooks: the outbox, and `app webhooks`, which sends from it.

mod receiver;

use std::{collections::BTreeSet, fs, net::IpAddr, path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Parser;
use rustls::RootCertStore;
use serde_json::{Value, json};
use shortener_app::{
    config::{Cli, Command},
    store::{
        management::Management,
        migrate::migrate,
        webhooks::{Outbox, receivers},
    },
    webhooks::{Receivers, client::Trust, metrics::Metrics, run::Webhooks, schedule::Failure},
};
use shortener_testing::database::TestDatabase;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use self::receiver::{Answer, Receiver};
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
const OLD: &str = "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw";
const NEW: &str = "whsec_MTExMTExMTExMTExMTExMTExMTExMTEx";
const OK: &str = "200 OK";
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

/// A running sender.
struct Sender {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
    internal: std::net::SocketAddr,
    _secrets: TempDir,
}

fn everything(_: IpAddr) -> bool {
    true
}

fn write_secret(folder: &Path, receiver: &str, text: &str) {
    let folder = folder.join(receiver);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("secret"), text).unwrap();
}

impl Sender {
    /// Starts a sender to these receivers that trusts their certificates and connects to every address.
    fn start(database: &PgConnectOptions, receivers: &[(&str, &Receiver)], secret: &str) -> Self {
        let mut authorities = RootCertStore::empty();
        for (_, receiver) in receivers {
            authorities.roots.extend(receiver.authorities().roots);
        }
        let trust = Trust {
            authorities,
            is_allowed: everything,
        };
        let urls: Vec<_> = receivers
            .iter()
            .map(|(name, one)| (*name, one.url()))
            .collect();
        let urls: Vec<_> = urls
            .iter()
            .map(|(name, url)| (*name, url.as_str()))
            .collect();
        Self::with(database, &urls, secret, trust)
    }

    fn with(
        database: &PgConnectOptions,
        receivers: &[(&str, &str)],
        secret: &str,
        trust: Trust,
    ) -> Self {
        let secrets = tempfile::tempdir().unwrap();
        for (name, _) in receivers {
            write_secret(secrets.path(), name, secret);
        }
        let directory = secrets.path().to_str().unwrap();
        let arguments = [
            "app",
            "webhooks",
            "--internal-listen=127.0.0.1:0",
            "--public-url=https://sho.rt/",
            "--webhooks-secrets-directory",
            directory,
            "--database-url",
            &url_of(database),
            "--webhooks",
            &setting(receivers),
        ];
        let Command::Webhooks(args) = Cli::parse_from(arguments).command else {
            unreachable!()
        };
        let metrics = Metrics::of(&args.webhooks);
        let webhooks = Webhooks::bind(*args, metrics, trust).unwrap();
        let internal = webhooks.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let run = webhooks.run(async {
            let _ = stopped.await;
        });
        Self {
            stop,
            ended: tokio::spawn(run),
            internal,
            _secrets: secrets,
        }
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.ended).await.unwrap().unwrap();
    }
}

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
async fn a_message_is_signed_with_every_secret_and_describes_the_link() {
    let mut receiver = Receiver::start(|_| Answer::Head(OK)).await;
    let (database, mut connection) = with_receivers(&[("crm", &receiver.url())]).await;
    let insert = "INSERT INTO links (code, url, created_by) VALUES ('k7Qm2xB', 'https://example.com/', 'jane')";
    connection.execute(insert).await.unwrap();
    let sender = Sender::start(&database, &[("crm", &receiver)], &format!("{OLD}\n{NEW}\n"));
    let received = timeout(PATIENCE, receiver.next()).await.unwrap();
    assert_eq!(received.head, "POST /hook HTTP/1.1");
    assert!(received.is_signed_with(OLD) && received.is_signed_with(NEW));
    assert!(!received.is_signed_with("whsec_MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy"));
    let body = received.json();
    assert_eq!(body["type"], "link.created");
    assert_eq!(body["data"]["short_url"], "https://sho.rt/k7Qm2xB");
    assert_eq!(body["data"]["url"], "https://example.com/");
    assert!(!body.to_string().contains("jane"), "{body}");
    until(&mut connection, EVENTS, &[]).await;
    let success = "SELECT name FROM webhook_receivers WHERE last_success_at IS NOT NULL";
    assert_eq!(rows(&mut connection, success).await, ["crm"]);
    let metrics = get(sender.internal, "/metrics").await.text();
    let counted = r#"webhook_attempts_total{receiver="crm",outcome="delivered"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(get(sender.internal, "/readyz").await.status, 200);
    sender.end().await;
}

#[tokio::test]
async fn failures_follow_the_schedule_until_the_delivery_is_given_up_and_sent_again_by_hand() {
    let mut receiver = Receiver::start(|number| {
        Answer::Head(match number {
            0 => "500 Broken",
            1 => "503 Busy\r\nretry-after: 7200",
            2 => "302 Found\r\nlocation: /elsewhere",
            3 => "410 Gone",
            _ => OK,
        })
    })
    .await;
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    apply(&database, &setting(&[("crm", &receiver.url())])).await;
    let mut connection = database.connect().await.unwrap();
    shorten(app.public, json!({"url": "https://example.com/a"})).await;
    let sender = Sender::start(&database, &[("crm", &receiver)], OLD);
    let mut identities = Vec::new();
    // The first pause may end before it is read.
    for (status, range) in [
        (500, "0 AND 6"),
        (503, "7100 AND 8000"),
        (302, "1700 AND 2000"),
    ] {
        let received = timeout(PATIENCE, receiver.next()).await.unwrap();
        identities.push(received.headers["webhook-id"].clone());
        if status == 500 {
            continue;
        }
        let state = format!(
            "SELECT last_status::text FROM webhook_deliveries WHERE extract(epoch FROM next_at - now()) BETWEEN {range}"
        );
        until(&mut connection, &state, &[&status.to_string()]).await;
        let now = "UPDATE webhook_deliveries SET next_at = now()";
        connection.execute(now).await.unwrap();
    }
    identities.push(receiver.next().await.headers["webhook-id"].clone());
    let given_up = "SELECT attempts || ' ' || last_status FROM webhook_deliveries WHERE given_up_at IS NOT NULL";
    until(&mut connection, given_up, &["4 410"]).await;
    let list = administer(&app, "GET", &format!("{DELIVERIES}?state=given_up"), None)
        .await
        .json();
    let delivery = &list["deliveries"][0];
    assert_eq!(delivery["last_status"], 410);
    let counts = administer(&app, "GET", "/api/admin/webhooks", None)
        .await
        .json();
    assert_eq!(counts["receivers"][0]["given_up"], 1);
    let retry = format!("{DELIVERIES}/{}/retry", delivery["id"]);
    let retried = administer(&app, "POST", &retry, Some(json!({"reason": "mended"}))).await;
    assert_eq!(retried.json()["retried"], 1, "{retried:?}");
    identities.push(receiver.next().await.headers["webhook-id"].clone());
    identities.dedup();
    assert_eq!(identities.len(), 1, "{identities:?}");
    until(&mut connection, EVENTS, &[]).await;
    let audit = "SELECT action || ' ' || reason FROM audit_log";
    assert_eq!(
        rows(&mut connection, audit).await,
        ["webhook_retried mended"]
    );
    assert_eq!(administer(&app, "POST", &retry, None).await.status, 404);
    sender.end().await;
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
async fn a_slow_receiver_delays_no_other_one() {
    let mut slow = Receiver::start(|_| Answer::Never).await;
    let mut quick = Receiver::start(|_| Answer::Head(OK)).await;
    let list = [("slow", &*slow.url()), ("quick", &*quick.url())];
    let (database, mut connection) = with_receivers(&list).await;
    let insert = "INSERT INTO links (code, url) SELECT 'a' || n, 'https://example.com' FROM generate_series(1, 20) n";
    connection.execute(insert).await.unwrap();
    let sender = Sender::start(&database, &[("slow", &slow), ("quick", &quick)], OLD);
    for _ in 0..4 {
        timeout(PATIENCE, slow.next()).await.unwrap();
    }
    for _ in 0..20 {
        timeout(PATIENCE, quick.next()).await.unwrap();
    }
    let left = "SELECT DISTINCT receiver FROM webhook_deliveries";
    until(&mut connection, left, &["slow"]).await;
    assert!(slow.is_quiet(), "four at a time are the most");
    sender.ended.abort();
}

#[tokio::test]
async fn a_receiver_that_is_down_gets_one_request_at_a_time() {
    // The first four requests fail, and those that are under way beside the last of them.
    let mut down = Receiver::start(|number| match number {
        0..=6 => Answer::Head("503 Busy"),
        _ => Answer::Never,
    })
    .await;
    let mut quick = Receiver::start(|_| Answer::Head(OK)).await;
    let list = [("down", &*down.url()), ("quick", &*quick.url())];
    let (database, mut connection) = with_receivers(&list).await;
    let insert = |prefix: &str| {
        AssertSqlSafe(format!(
            "INSERT INTO links (code, url) SELECT '{prefix}' || n, 'https://example.com' FROM generate_series(1, 20) n"
        ))
    };
    connection.execute(insert("a")).await.unwrap();
    let sender = Sender::start(&database, &[("down", &down), ("quick", &quick)], OLD);
    for _ in 0..8 {
        timeout(PATIENCE, down.next()).await.unwrap();
    }
    // Meanwhile the other receiver gets all, and new ones too.
    connection.execute(insert("b")).await.unwrap();
    for _ in 0..40 {
        timeout(PATIENCE, quick.next()).await.unwrap();
    }
    // Only a lease is longer than the first pause.
    let leased = "SELECT (count(*) <= 1)::text FROM webhook_deliveries \
        WHERE receiver = 'down' AND next_at > now() + interval '6 s'";
    assert_eq!(rows(&mut connection, leased).await, ["true"]);
    sender.ended.abort();
}

#[tokio::test]
async fn a_private_address_gets_no_connection_whether_it_is_named_or_written() {
    let mut receiver = Receiver::start(|_| Answer::Head(OK)).await;
    let port = receiver.address.port();
    let urls = [
        format!("https://localhost:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
    ];
    let list = [("a", &*urls[0]), ("b", &*urls[1]), ("c", &*urls[2])];
    let (database, mut connection) = with_receivers(&list).await;
    let insert = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    let trust = Trust {
        authorities: receiver.authorities(),
        ..Trust::default()
    };
    let sender = Sender::with(&database, &list, OLD, trust);
    let errors =
        "SELECT receiver || ' ' || coalesce(last_error, 'none') FROM webhook_deliveries ORDER BY 1";
    let expected = [
        "a private_address",
        "b private_address",
        "c private_address",
    ];
    until(&mut connection, errors, &expected).await;
    assert!(receiver.is_quiet());
    sender.end().await;
}

#[tokio::test]
async fn a_certificate_that_nobody_trusts_ends_the_attempt() {
    let mut receiver = Receiver::start(|_| Answer::Head(OK)).await;
    let url = receiver.url();
    let (database, mut connection) = with_receivers(&[("a", &url)]).await;
    let insert = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    let trust = Trust {
        is_allowed: everything,
        ..Trust::default()
    };
    let sender = Sender::with(&database, &[("a", &url)], OLD, trust);
    let errors = "SELECT last_error FROM webhook_deliveries WHERE attempts > 0";
    until(&mut connection, errors, &["unreachable"]).await;
    assert!(receiver.is_quiet());
    sender.end().await;
}

#[tokio::test]
async fn without_a_secret_nothing_is_sent_and_one_that_appears_needs_no_restart() {
    let mut receiver = Receiver::start(|_| Answer::Head(OK)).await;
    let (database, mut connection) = with_receivers(&[("crm", &receiver.url())]).await;
    let insert = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    let sender = Sender::start(&database, &[("crm", &receiver)], "no secret");
    let wait = async {
        loop {
            let metrics = get(sender.internal, "/metrics").await.text();
            // The number of deliveries is known, so the database was up.
            if metrics.contains(r#"webhook_deliveries{receiver="crm",state="pending"} 1"#) {
                return metrics;
            }
        }
    };
    let metrics = timeout(PATIENCE, wait).await.unwrap();
    assert!(
        metrics.contains(r#"webhook_secret{receiver="crm"} 0"#),
        "{metrics}"
    );
    assert!(receiver.is_quiet());
    write_secret(sender._secrets.path(), "crm", NEW);
    let received = timeout(PATIENCE, receiver.next()).await.unwrap();
    assert!(received.is_signed_with(NEW));
    until(&mut connection, EVENTS, &[]).await;
    sender.end().await;
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
    migrated("[]").await;
    assert_eq!(rows(&mut connection, EVENTS).await.len(), 0);
}

#[tokio::test]
async fn the_sender_keeps_its_receivers_although_earlier_programs_have_others() {
    let (database, mut connection) = with_receivers(&[("crm", "https://example.com/")]).await;
    let insert = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    let all = "SELECT name || ' ' || array_length(events, 1) FROM webhook_receivers ORDER BY name";
    // A pod of the earlier template starts while this one sends.
    let earlier = r#"[{"name":"old","url":"https://old.example/","events":["link.created"]}]"#;
    apply(&database, earlier).await;
    assert_eq!(rows(&mut connection, all).await, ["crm 4", "old 1"]);
    assert_eq!(rows(&mut connection, EVENTS).await, ["crm link.created a"]);
    let outbox = Outbox::new(access(&database).await);
    let own = setting(&[("crm", "https://example.com/")]);
    let own: Receivers = own.parse().unwrap();
    let age = "UPDATE webhook_receivers SET seen_at = now() - interval '6 min'";
    connection.execute(age).await.unwrap();
    outbox.store_receivers(&own).await.unwrap();
    assert_eq!(rows(&mut connection, all).await, ["crm 4"]);
    // One that has none removes them all, and a sender brings its own back.
    apply(&database, "[]").await;
    assert_eq!(rows(&mut connection, all).await, [""; 0]);
    let list = [("crm", "https://example.com/")];
    let sender = Sender::with(&database, &list, OLD, Trust::default());
    until(&mut connection, all, &["crm 4"]).await;
    sender.end().await;
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

#[test]
fn the_secrets_of_these_tests_are_valid() {
    for secret in [OLD, NEW] {
        assert_eq!(STANDARD.decode(&secret[6..]).unwrap().len(), 24);
    }
}
