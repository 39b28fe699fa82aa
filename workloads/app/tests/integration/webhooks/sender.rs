//! `app webhooks`: what it sends, to which addresses, and when.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Parser;
use rustls::RootCertStore;
use shortener_app::{
    config::{Cli, Command},
    webhooks::{client::Trust, metrics::Metrics, run::Webhooks},
};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    receiver::{Answer, Receiver},
    *,
};

const OLD: &str = "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw";
const NEW: &str = "whsec_MTExMTExMTExMTExMTExMTExMTExMTEx";
const OK: &str = "200 OK";

/// A running sender.
struct Sender {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
    internal: SocketAddr,
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
    // One that has none removes nothing that a sender has.
    apply(&database, "[]").await;
    assert_eq!(rows(&mut connection, EVENTS).await, ["crm link.created a"]);
    connection.execute(age).await.unwrap();
    apply(&database, "[]").await;
    assert_eq!(rows(&mut connection, all).await, [""; 0]);
    let list = [("crm", "https://example.com/")];
    let sender = Sender::with(&database, &list, OLD, Trust::default());
    until(&mut connection, all, &["crm 4"]).await;
    sender.end().await;
}

#[tokio::test]
async fn a_receiver_that_was_removed_has_no_metrics() {
    let list = [("crm", "https://a.example/"), ("old", "https://b.example/")];
    let (database, mut connection) = with_receivers(&list).await;
    let insert = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(insert).await.unwrap();
    let sender = Sender::with(&database, &list[..1], "no secret", Trust::default());
    let counted = r#"webhook_deliveries{receiver="crm",state="pending"} 1"#;
    let wait = async {
        loop {
            let metrics = get(sender.internal, "/metrics").await.text();
            if metrics.contains(counted) {
                return metrics;
            }
        }
    };
    let metrics = timeout(PATIENCE, wait).await.unwrap();
    assert!(!metrics.contains("old"), "{metrics}");
    sender.end().await;
}

#[test]
fn the_secrets_of_these_tests_are_valid() {
    for secret in [OLD, NEW] {
        assert_eq!(STANDARD.decode(&secret[6..]).unwrap().len(), 24);
    }
}
