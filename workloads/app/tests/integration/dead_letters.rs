//! The management of dead letters by `/api/admin/dead-letters` and by `app dead-letters`.

use std::{collections::BTreeSet, time::Duration};

use futures::future::select;
use lapin::{
    BasicProperties,
    options::{BasicPublishOptions, BasicRejectOptions},
    types::{AMQPValue, FieldTable},
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use shortener_app::{
    job_ids::JobIds,
    publisher::{
        Publisher,
        letters::{Choice, DeadLetters, LettersError, Operation},
        metrics::PublisherMetrics,
    },
    store::audit::Cause,
};
use shortener_common::{
    memory::Memory,
    queue::{
        job::{Job, tracestate_of},
        origin::Origin,
    },
    telemetry::span::Tracer,
};
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics,
    proxy::{Path, Proxy},
};
use sqlx::{ConnectOptions, Executor};
use tokio::process::Command;
use uuid::Uuid;

use crate::{
    client::{Response, json_bytes, post, post_bytes, send},
    keys::secret,
    management::{Keys, administer},
    process::{BINARY, addresses, migrated, serving, start},
    support::{App, Blocker, access, config, url_of},
};

const LETTERS: &str = "/api/admin/dead-letters";
/// An identifier that no job has.
const UNKNOWN: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
const DESK: &str = "4b7e1d9c3f6a82500e5d8b2c7f94a163";

/// An app whose jobs a test gives up.
struct World {
    app: App,
    broker: Broker,
    keys: Keys,
    database: TestDatabase,
}

impl World {
    async fn new() -> Self {
        let broker = Broker::new().await;
        let url = broker.url();
        Self::with(broker, url).await
    }

    /// Starts an app that finds the broker at this URL.
    async fn with(broker: Broker, url: String) -> Self {
        let (database, keys) = (TestDatabase::new().await, Keys::new());
        let app = App::start_with(&database, |config| {
            config.queue.queue_url = Some(url);
            keys.configure(config);
        })
        .await;
        metrics::wait_for(app.internal, "queue_up 1").await;
        Self {
            app,
            broker,
            keys,
            database,
        }
    }

    /// Enqueues these jobs without a key and gives them up; returns their identifiers.
    async fn dead(&self, bodies: &[&str]) -> Vec<String> {
        let mut ids = Vec::new();
        for body in bodies {
            let accepted = post(self.app.public, "/jobs", body).await;
            assert_eq!(accepted.status, 202, "{accepted:?}");
            ids.push(accepted.json()["id"].as_str().unwrap().to_owned());
        }
        give_up(&self.broker, bodies.len()).await;
        ids
    }

    async fn get(&self, path: &str) -> Response {
        administer(&self.app, "GET", &format!("{LETTERS}{path}"), None).await
    }

    async fn sweep(&self, verb: &str, choice: Value) -> Response {
        let path = format!("{LETTERS}/{verb}");
        administer(&self.app, "POST", &path, Some(choice)).await
    }

    /// Checks that the audit log has exactly these entries of a client, in any order.
    async fn has_entries(&self, by: &str, expected: &[(&str, &String, Option<&str>)]) {
        let by = by.replace('/', "%2F");
        let path = format!("/api/admin/audit?by={by}");
        let page = administer(&self.app, "GET", &path, None).await.json();
        let entries = page["entries"].as_array().unwrap();
        assert_eq!(entries.len(), expected.len(), "{page}");
        for (action, id, reason) in expected {
            let is_found = entries.iter().any(|entry| {
                entry["action"] == *action
                    && entry["subject"] == **id
                    && entry["reason"] == json!(reason)
            });
            assert!(is_found, "{action} {id}: {page}");
        }
    }

    /// Checks that everything was found, and that this many dead letters stay.
    async fn swept(&self, verb: &str, choice: Value, done: usize, stay: u32) {
        let swept = self.sweep(verb, choice).await;
        assert_eq!(swept.status, 200, "{swept:?}");
        let expected = json!({"done": done, "kept": 0, "missing": [], "complete": true});
        assert_eq!(swept.json(), expected);
        self.broker.wait_for("jobs.dlq", (stay, 0)).await;
    }
}

/// Rejects the next jobs as a worker does for good.
async fn give_up(broker: &Broker, count: usize) {
    let (before, _) = broker.counts("jobs.dlq").await;
    for _ in 0..count {
        let job = until("a job", async || {
            broker.get("jobs").await.ok_or("none".to_owned())
        })
        .await;
        let for_good = BasicRejectOptions { requeue: false };
        job.reject(for_good).await.unwrap();
    }
    let dead = before + u32::try_from(count).unwrap();
    broker.wait_for("jobs.dlq", (dead, 0)).await;
}

fn listed(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let page = response.json();
    let letters = page["dead_letters"].as_array().unwrap().iter();
    letters.map(|letter| letter["id"].to_string()).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_and_stay() {
    let world = World::new().await;
    assert_eq!(
        world.get("").await.json(),
        json!({"dead_letters": [], "total": 0, "next_skip": null})
    );
    let body = r#"{ "task":"email", "id":1 }"#;
    let mut ids = world.dead(&[body, "{}", r#"{"id":"b"}"#]).await;
    for id in &mut ids {
        *id = format!("\"{id}\"");
    }
    for (query, count) in [("", 3), ("?limit=2", 2), ("?limit=100", 3)] {
        let page = world.get(query).await;
        let mut shown = listed(&page);
        assert_eq!(shown.len(), count);
        shown.retain(|id| ids.contains(id));
        assert_eq!(shown.len(), count);
        assert_eq!(page.json()["total"], 3);
        world.broker.wait_for("jobs.dlq", (3, 0)).await;
    }
    let page = world.get("").await.json();
    let letters = page["dead_letters"].as_array().unwrap();
    let id = ids[0].trim_matches('"');
    let first = |letter: &&Value| letter["id"] == id;
    let mut letter = letters.iter().find(first).unwrap().clone();
    let died_at: jiff::Timestamp = letter["died_at"].as_str().unwrap().parse().unwrap();
    assert!(died_at.as_second() > 1_700_000_000);
    letter.as_object_mut().unwrap().remove("died_at");
    assert_eq!(
        letter,
        json!({"id": id, "task": "email", "client_id": "1", "origin": "anonymous", "reason": "rejected", "bytes": body.len()})
    );
}

#[tokio::test]
async fn one_dead_letter_is_shown_with_its_body() {
    let world = World::new().await;
    let body = r#"{ "task":"email", "note":"é\u0000" }"#;
    let ids = world.dead(&["{}", body]).await;
    let shown = world.get(&format!("/{}", ids[1])).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert_eq!(shown.json()["body"], body);
    assert_eq!(shown.json()["encoding"], "text");

    let id = Uuid::now_v7().to_string();
    let properties = BasicProperties::default().with_message_id(id.clone().into());
    world.broker.publish(properties, b"\xff\x00").await;
    give_up(&world.broker, 1).await;
    let shown = world.get(&format!("/{id}")).await.json();
    assert_eq!(
        (&shown["body"], &shown["encoding"]),
        (&json!("/wA="), &json!("base64"))
    );
    assert_eq!(
        (&shown["task"], &shown["origin"]),
        (&json!(""), &json!("internal"))
    );

    let unknown = format!("/{UNKNOWN}");
    for path in [unknown.as_str(), "/1", "/", "/replayed"] {
        world.get(path).await.problem(404, "not-found");
    }
    world.broker.wait_for("jobs.dlq", (3, 0)).await;
}

#[tokio::test]
async fn a_replayed_job_keeps_id_body_and_trace_and_the_others_stay() {
    let world = World::new().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!("traceparent: 00-{trace}-b7ad6b7169203331-01\r\ntracestate: a=1\r\n");
    let body = br#"{ "task":"reindexing",  "id":1 }"#;
    let accepted = send(world.app.public, post_bytes("/jobs", &headers, body)).await;
    let id = accepted.json()["id"].as_str().unwrap().to_owned();
    give_up(&world.broker, 1).await;
    let others = world.dead(&["{}", "{}"]).await;

    let choice = json!({"ids": [id, UNKNOWN]});
    let swept = world.sweep("replay", choice).await;
    assert_eq!(swept.status, 200, "{swept:?}");
    assert_eq!(
        swept.json(),
        json!({"done": 1, "kept": 0, "missing": [UNKNOWN], "complete": true})
    );
    let message = world.broker.get("jobs").await.unwrap();
    let headers = message.properties.headers().clone().unwrap();
    let mut names = headers.inner().keys().map(|name| name.as_str());
    assert!(!names.any(|name| name.contains("death")), "{headers:?}");
    assert_eq!(tracestate_of(&message.properties).as_deref(), Some("a=1"));
    let job = Job::parse(&message.properties, message.data.clone()).unwrap();
    assert_eq!((job.id.to_string(), job.text.as_bytes()), (id, &body[..]));
    assert_eq!(job.trace.trace_id.to_string(), trace);
    assert_eq!(job.origin, Origin::Anonymous);

    world.broker.wait_for("jobs.dlq", (2, 0)).await;
    let left = world.get("").await.json();
    for other in others {
        assert!(left.to_string().contains(&other), "{left}");
    }
}

#[tokio::test]
async fn the_sender_of_a_replayed_job_stays_known_and_marks_of_copies_do_not() {
    let world = World::new().await;
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("shortener-origin", "key:shop"),
        ("shortener-copied-by", "1"),
    ] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = BasicProperties::default()
        .with_message_id(UNKNOWN.into())
        .with_headers(headers);
    world.broker.publish(properties, b"{}").await;
    give_up(&world.broker, 1).await;
    world.swept("replay", json!({"ids": [UNKNOWN]}), 1, 0).await;
    let message = world.broker.get("jobs").await.unwrap();
    let headers = message.properties.headers().clone().unwrap();
    assert!(!headers.contains_key("shortener-copied-by"), "{headers:?}");
    let job = Job::parse(&message.properties, message.data.clone()).unwrap();
    assert_eq!(job.origin, Origin::Client("shop".into()));
}

#[tokio::test]
async fn a_replayed_job_begins_anew() {
    let world = World::new().await;
    let ids = world.dead(&["{}"]).await;
    let mut ledger = world.database.connect().await.unwrap();
    let failed = "INSERT INTO jobs (message_id, task, state, created_at, finished_at, error) \
        VALUES ($1::uuid, 'reindex', 'failed', now() - interval '7 days', now(), 'it broke')";
    let failed = sqlx::query(failed).bind(&ids[0]).execute(&mut ledger);
    failed.await.unwrap();
    world.swept("replay", json!({"ids": ids}), 1, 0).await;
    let anew = "SELECT created_at > now() - interval '1 hour' FROM jobs";
    let anew = sqlx::query_scalar::<_, bool>(anew).fetch_one(&mut ledger);
    assert!(anew.await.unwrap());
}

#[tokio::test]
async fn all_dead_letters_are_replayed_or_dropped_and_what_never_was_a_job_is_not_replayed() {
    let world = World::new().await;
    let mut ids = world.dead(&["{}", "{}"]).await;
    for body in [&b"{}"[..], b"[]"] {
        world.broker.publish(BasicProperties::default(), body).await;
        give_up(&world.broker, 1).await;
    }
    let swept = world.sweep("replay", json!({"all": true})).await;
    let expected = json!({"done": 3, "kept": 1, "missing": [], "complete": true});
    assert_eq!(swept.json(), expected);
    world.broker.wait_for("jobs.dlq", (1, 0)).await;
    world.broker.wait_for("jobs", (3, 0)).await;
    give_up(&world.broker, 3).await;

    let one = json!({"ids": [ids.pop().unwrap()], "all": false});
    world.swept("drop", one, 1, 3).await;
    let left = world.get("").await;
    assert!(listed(&left).contains(&format!("\"{}\"", ids[0])));
    assert!(listed(&left).contains(&"null".to_owned()));
    world.swept("drop", json!({"all": true}), 3, 0).await;
    world.swept("drop", json!({"all": true}), 0, 0).await;
    assert_eq!(world.broker.counts("jobs").await.0, 0);
}

#[tokio::test]
async fn a_chosen_dead_letter_that_never_was_a_job_stays_and_is_counted() {
    let world = World::new().await;
    let properties = BasicProperties::default().with_message_id(UNKNOWN.into());
    world.broker.publish(properties, b"[]").await;
    give_up(&world.broker, 1).await;
    let choice = json!({"ids": [UNKNOWN]});
    let swept = world.sweep("replay", choice.clone()).await;
    let expected = json!({"done": 0, "kept": 1, "missing": [], "complete": true});
    assert_eq!(swept.json(), expected);
    world.broker.wait_for("jobs.dlq", (1, 0)).await;
    world.swept("drop", choice, 1, 0).await;
}

#[tokio::test]
async fn many_dead_letters_return_to_their_queue_and_leave_it_together() {
    let world = World::new().await;
    for _ in 0..150 {
        let id = Uuid::now_v7().to_string();
        let properties = BasicProperties::default().with_message_id(id.into());
        let (queue, options) = ("jobs.dlq".into(), BasicPublishOptions::default());
        let channel = &world.broker.channel;
        let sent = channel.basic_publish("".into(), queue, options, b"{}", properties);
        sent.await.unwrap();
    }
    world.broker.wait_for("jobs.dlq", (150, 0)).await;
    let mut ids = BTreeSet::new();
    for (query, count, next) in [
        ("", 100, json!(100)),
        ("?skip=100&limit=30", 30, json!(130)),
        ("?skip=130", 20, json!(null)),
        ("?skip=150", 0, json!(null)),
        ("?skip=999", 0, json!(null)),
    ] {
        let page = world.get(query).await;
        let shown = listed(&page);
        assert_eq!(shown.len(), count, "{query}");
        ids.extend(shown);
        assert_eq!(page.json()["total"], 150, "{query}");
        assert_eq!(page.json()["next_skip"], next, "{query}");
        world.broker.wait_for("jobs.dlq", (150, 0)).await;
    }
    assert_eq!(ids.len(), 150);
    let unknown = world.get(&format!("/{UNKNOWN}")).await;
    unknown.problem(404, "not-found");
    world.broker.wait_for("jobs.dlq", (150, 0)).await;
    world.swept("drop", json!({"all": true}), 150, 0).await;
}

#[tokio::test]
async fn an_outage_of_the_broker_loses_no_dead_letter() {
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let url = broker.url_at(proxy.address);
    let world = World::with(broker, url).await;
    world.dead(&["{}", "{}"]).await;
    proxy.set(Path::Refused);
    metrics::wait_for(world.app.internal, "queue_up 0").await;
    world.get("").await.problem(503, "queue-unavailable");
    for verb in ["replay", "drop"] {
        let refused = world.sweep(verb, json!({"all": true})).await;
        refused.problem(503, "queue-unavailable");
    }
    proxy.set(Path::Open);
    metrics::wait_for(world.app.internal, "queue_up 1").await;
    world.swept("replay", json!({"all": true}), 2, 0).await;
    world.broker.wait_for("jobs", (2, 0)).await;
}

#[tokio::test]
async fn what_the_time_limit_leaves_out_is_told() {
    let world = World::new().await;
    world.dead(&["{}", "{}", "{}"]).await;
    let mut config = config("postgres://u:p@db/x");
    config.queue.queue_url = Some(world.broker.url());
    let broker = config.queue.broker().unwrap().unwrap();
    let metrics = PublisherMetrics::register(&mut Registry::default());
    let (room, ids) = (Memory::default().jobs, JobIds::default());
    let publisher = Publisher::start(broker.clone(), ids, room, metrics, Tracer::default());
    let database = access(&world.database).await;
    let mut letters = DeadLetters::new(broker, publisher, &database);
    letters.limit = Duration::ZERO;

    let page = letters.list(0, 100).await.unwrap();
    let found = (page.letters.len(), page.total, page.next_skip);
    assert_eq!(found, (1, 3, Some(1)));
    world.broker.wait_for("jobs.dlq", (3, 0)).await;
    let page = letters.list(1, 100).await;
    assert!(matches!(page, Err(LettersError::OutOfTime)));
    world.broker.wait_for("jobs.dlq", (3, 0)).await;
    let found = letters.find(UNKNOWN.parse().unwrap()).await;
    assert!(matches!(found, Err(LettersError::OutOfTime)));
    world.broker.wait_for("jobs.dlq", (3, 0)).await;
    let cause = Cause {
        by: "desk".to_owned(),
        reason: None,
    };
    let swept = letters.sweep(Choice::All, Operation::Drop, &cause).await;
    let swept = swept.unwrap();
    assert_eq!((swept.done, swept.complete), (1, false));
    world.broker.wait_for("jobs.dlq", (2, 0)).await;
}

#[tokio::test]
async fn every_dead_letter_that_leaves_its_queue_has_an_entry_in_the_audit_log() {
    let world = World::new().await;
    let ids = world.dead(&["{}", "{}"]).await;
    let choice = json!({"ids": [ids[0]], "reason": "mended"});
    world.swept("replay", choice, 1, 1).await;
    let mut connection = world.database.connect().await.unwrap();
    let refuse =
        "ALTER TABLE audit_log ADD CONSTRAINT refused CHECK (action <> 'dead_letter_dropped')";
    connection.execute(refuse).await.unwrap();
    let refused = world.sweep("drop", json!({"all": true})).await;
    refused.problem(500, "internal");
    world.broker.wait_for("jobs.dlq", (1, 0)).await;
    let replayed = ("dead_letter_replayed", &ids[0], Some("mended"));
    world.has_entries("desk", &[replayed]).await;
    let permit = "ALTER TABLE audit_log DROP CONSTRAINT refused";
    connection.execute(permit).await.unwrap();
    world.swept("drop", json!({"all": true}), 1, 0).await;
    let dropped = ("dead_letter_dropped", &ids[1], None);
    world.has_entries("desk", &[replayed, dropped]).await;
}

#[tokio::test]
async fn one_request_at_a_time_works_on_the_dead_letters() {
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let url = broker.url_at(proxy.address);
    let world = World::with(broker, url).await;
    proxy.set(Path::Held);
    let (one, other) = (Box::pin(world.get("")), Box::pin(world.get("")));
    let (refused, waiting) = select(one, other).await.factor_first();
    refused.problem(409, "dead-letters-busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    proxy.set(Path::Open);
    assert_eq!(waiting.await.status, 200);
}

#[tokio::test]
async fn no_dead_letter_seems_absent_while_another_program_works_on_it() {
    let world = World::new().await;
    let id = world.dead(&["{}"]).await.remove(0);
    let url = world.broker.url();
    let other = App::start_with(&world.database, |config| {
        config.queue.queue_url = Some(url);
        world.keys.configure(config);
    })
    .await;
    let mut blocker = Blocker::hold_audit(&world.database).await;
    let refused = async {
        blocker.wait_until_blocked().await;
        let one = format!("/{id}");
        for (method, path, body) in [
            ("GET", "", None),
            ("GET", one.as_str(), None),
            ("POST", "/replay", Some(json!({"all": true}))),
            ("POST", "/drop", Some(json!({"ids": [id]}))),
        ] {
            let refused = administer(&other, method, &format!("{LETTERS}{path}"), body).await;
            refused.problem(409, "dead-letters-busy");
        }
        blocker.release().await;
    };
    let dropped = world.sweep("drop", json!({"all": true}));
    let (dropped, ()) = tokio::join!(dropped, refused);
    let all = json!({"done": 1, "kept": 0, "missing": [], "complete": true});
    assert_eq!(dropped.json(), all, "{dropped:?}");
    let left = administer(&other, "GET", LETTERS, None).await.json();
    assert_eq!(left["total"], 0, "{left}");
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused_with_the_name_of_the_field() {
    let world = World::new().await;
    for (path, field) in [
        ("?limit=0", "limit"),
        ("?skip=-1", "skip"),
        ("?after=1", "query"),
    ] {
        let problem = world.get(path).await.problem(400, "invalid-fields");
        assert_eq!(problem["errors"][0]["field"], field);
    }
    for (choice, field) in [(json!({}), "ids"), (json!({"all": 1}), "all")] {
        let refused = world.sweep("drop", choice).await;
        let problem = refused.problem(400, "invalid-fields");
        assert_eq!(problem["errors"][0]["field"], field);
    }
}

/// Runs `app dead-letters` and returns what it prints, or its error.
async fn command(
    database: &TestDatabase,
    queue_url: &str,
    arguments: &[&str],
) -> Result<Value, String> {
    let mut command = Command::new(BINARY);
    command.arg("dead-letters").args(arguments);
    command.env("QUEUE_URL", queue_url).env("HOSTNAME", "pod-3");
    command.env("DATABASE_URL", url_of(database));
    let output = command.output().await.unwrap();
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[tokio::test]
async fn who_may_run_programs_in_the_pod_needs_no_key() {
    let world = World::new().await;
    let ids = world.dead(&["{}", "{}", r#"{"task":"email"}"#]).await;
    let url = world.broker.url();
    let run = async |arguments: &[&str]| command(&world.database, &url, arguments).await;
    let listed = run(&["ls", "--limit", "2"]).await.unwrap();
    assert_eq!(listed["dead_letters"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&listed["total"], &listed["next_skip"]),
        (&json!(3), &json!(2))
    );
    let last = run(&["ls", "--skip", "2"]).await.unwrap();
    assert_eq!(last["dead_letters"].as_array().unwrap().len(), 1);
    assert_eq!(last["next_skip"], json!(null));
    let shown = run(&["show", &ids[2]]).await.unwrap();
    assert_eq!(shown["body"], r#"{"task":"email"}"#);
    world.broker.wait_for("jobs.dlq", (3, 0)).await;

    let swept = run(&["replay", &ids[2], &ids[1], UNKNOWN]).await;
    let expected = json!({"done": 2, "kept": 0, "missing": [UNKNOWN], "complete": true});
    assert_eq!(swept.unwrap(), expected);
    let message = world.broker.get("jobs").await.unwrap();
    let job = Job::parse(&message.properties, message.data.clone()).unwrap();
    assert_eq!(job.origin, Origin::Anonymous);
    let swept = run(&["drop", "--all", "--reason", "ticket 7"]).await;
    assert_eq!(swept.unwrap()["done"], 1);
    world.broker.wait_for("jobs.dlq", (0, 0)).await;
    let expected = [
        ("dead_letter_replayed", &ids[1], None),
        ("dead_letter_replayed", &ids[2], None),
        ("dead_letter_dropped", &ids[0], Some("ticket 7")),
    ];
    world.has_entries("pod/pod-3", &expected).await;
}

#[tokio::test]
async fn the_command_says_what_is_wrong() {
    let (broker, database) = (Broker::new().await, TestDatabase::new().await);
    let (url, away) = (broker.url(), "amqp://u:s3cret@127.0.0.1:1/%2f");
    for (url, arguments, reason) in [
        (
            url.as_str(),
            &["show", UNKNOWN][..],
            "no dead letter has the id",
        ),
        (&url, &["show", "7"], "invalid value '7'"),
        (&url, &["drop"], "required arguments"),
        (&url, &["drop", "--all", UNKNOWN], "cannot be used with"),
        (
            &url,
            &["drop", "--all", "--reason", ""],
            "1 to 500 characters",
        ),
        ("", &["ls"], "The queue profile is not enabled"),
        (away, &["replay", "--all"], "refused"),
    ] {
        let error = command(&database, url, arguments).await.unwrap_err();
        assert!(error.contains(reason), "{arguments:?}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn without_the_queue_profile_there_are_no_dead_letters() {
    let (database, keys) = (TestDatabase::new().await, Keys::new());
    let app = App::start_with(&database, |config| keys.configure(config)).await;
    for (method, path, body) in [
        ("GET", "", None),
        ("GET", "/1", None),
        ("POST", "/replay", Some(json!({"all": true}))),
        ("POST", "/drop", Some(json!({"all": true}))),
    ] {
        let refused = administer(&app, method, &format!("{LETTERS}{path}"), body).await;
        refused.problem(501, "profile-disabled");
    }
}

#[tokio::test]
async fn every_dead_letter_that_was_replayed_or_dropped_is_one_line_of_the_log() {
    let (database, broker) = (TestDatabase::new().await, Broker::new().await);
    let (url, queue) = (migrated(&database).await, broker.url());
    let keys = secret(&[("desk", DESK)]);
    let mut environment = serving(&url);
    environment.push(("AUTH_KEYS_DIRECTORY", keys.path().to_str().unwrap()));
    environment.push(("QUEUE_URL", queue.as_str()));
    let mut process = start(&["serve"], &environment);
    let (public, internal) = addresses(&mut process).await;
    metrics::wait_for(internal, "queue_up 1").await;
    let headers = format!("x-api-key: {DESK}\r\n");
    let ask = async |path: &str, body: &str| {
        send(public, json_bytes("POST", path, &headers, body.as_bytes())).await
    };
    let id = ask("/jobs", "{}").await.json()["id"].clone();
    for (verb, event) in [
        ("replay", "dead_letter_replayed"),
        ("drop", "dead_letter_dropped"),
    ] {
        give_up(&broker, 1).await;
        let swept = ask(&format!("{LETTERS}/{verb}"), r#"{"all":true}"#).await;
        assert_eq!(swept.json()["done"], 1, "{swept:?}");
        let line = process.event(event).await;
        assert_eq!(line["job.id"], id);
        assert_eq!(line["auth.client"], "desk");
    }
}
