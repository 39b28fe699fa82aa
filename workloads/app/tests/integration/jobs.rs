//! Accepting jobs: a 202 means that the broker has the job, and no other response affects links.

use std::{collections::BTreeSet, net::SocketAddr};

use futures::future::join_all;
use serde_json::{Value, json};
use shortener_common::{
    memory::{Buffer, DEFAULT_LIMIT, Memory},
    queue::{
        job::Job,
        origin::Origin,
        public_tasks::{PublicTasks, RESERVED},
    },
};
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics,
    proxy::{Path, Proxy},
};
use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};

use crate::{
    client::{Response, get, post, post_bytes, send, shorten},
    support::App,
};

/// The example of the specification.
const JOB: &str = r#"{"task":"email","id":1}"#;

/// Starts an app with the default memory limit that publishes to this broker, and waits until it is connected.
async fn app_with(database: &PgConnectOptions, url: String) -> App {
    let app = App::start_with(database, |config| {
        config.queue.queue_url = Some(url);
        config.memory.memory_limit_bytes = Some(DEFAULT_LIMIT);
    })
    .await;
    metrics::wait_for(app.internal, "queue_up 1").await;
    app
}

async fn enqueue(address: SocketAddr, headers: &str, body: &str) -> Response {
    send(address, post_bytes("/jobs", headers, body.as_bytes())).await
}

fn accepted(response: &Response) -> String {
    assert_eq!(response.status, 202, "{response:?}");
    let answer = response.json();
    assert_eq!(answer["status"], "enqueued");
    answer["id"].as_str().unwrap().to_owned()
}

fn refused(response: &Response) {
    response.problem(503, "queue-unavailable");
    let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
}

/// Sends jobs until one is accepted.
async fn recovered(app: &App) -> String {
    let response = until("a job to be accepted", async || {
        let response = post(app.public, "/jobs", JOB).await;
        if response.status != 202 {
            refused(&response);
            return Err(response.text());
        }
        Ok(response)
    })
    .await;
    accepted(&response)
}

/// Fills the queue. Every channel detects that separately, so one rejection is not enough.
async fn fill(broker: &Broker, app: &App) -> BTreeSet<String> {
    broker.policy(json!({"max-length": 1})).await;
    let (mut taken, mut refusals) = (BTreeSet::new(), 0);
    while refusals < 16 {
        let response = post(app.public, "/jobs", JOB).await;
        if response.status == 202 {
            taken.insert(accepted(&response));
            refusals = 0;
        } else {
            refused(&response);
            refusals += 1;
        }
    }
    taken
}

/// Empties the queue; returns the identifiers of its messages, which must be unique.
async fn drain(broker: &Broker) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    while let Some(message) = broker.get("jobs").await {
        let id = message.properties.message_id().clone().unwrap();
        assert!(ids.insert(id.as_str().to_owned()), "{id} occurs twice");
        message.ack(Default::default()).await.unwrap();
    }
    ids
}

#[tokio::test]
async fn an_accepted_job_is_in_the_queue_as_the_client_wrote_it() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!("traceparent: 00-{trace}-b7ad6b7169203331-00\r\ntracestate: a=1\r\n");
    let body = r#"{ "task" : "email",  "id":1, "note":"\u0000é" }"#;
    let response = enqueue(app.public, &headers, body).await;
    let id = accepted(&response);
    assert_eq!(response.json()["trace_id"], trace);
    assert_eq!(response.json().as_object().unwrap().len(), 3);

    let message = broker.get("jobs").await.unwrap();
    assert_eq!(String::from_utf8(message.data.clone()).unwrap(), body);
    let job = Job::parse(&message.properties, message.data).unwrap();
    assert_eq!(job.id.to_string(), id);
    assert_eq!(job.origin, Origin::Anonymous);
    assert_eq!(job.id.get_version_num(), 7);
    assert_eq!(job.trace.trace_id.to_string(), trace);
    let headers = format!("{:?}", message.properties.headers());
    assert!(headers.contains("tracestate"), "{headers}");
}

#[tokio::test]
async fn only_an_idempotency_key_makes_two_requests_one_job() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let first = accepted(&post(app.public, "/jobs", JOB).await);
    let second = accepted(&post(app.public, "/jobs", JOB).await);
    assert_ne!(
        first, second,
        "the client's own id does not identify the job"
    );

    let key = "idempotency-key: \"k-1\"\r\n";
    let answers = join_all((0..8).map(|_| enqueue(app.public, key, JOB))).await;
    let ids: BTreeSet<String> = answers.iter().map(accepted).collect();
    assert_eq!(ids.len(), 1, "eight requests create one job");
    // Concurrent requests may each have published it; later ones do not.
    let queued = drain_all(&broker).await;
    assert_eq!(
        accepted(&enqueue(app.public, key, JOB).await),
        *ids.first().unwrap()
    );
    assert_eq!(broker.counts("jobs").await.0, 0);
    assert_eq!(queued.len(), 3);

    let other = enqueue(app.public, key, r#"{"task":"email","id":2}"#).await;
    other.problem(422, "idempotency-key-reused");
    let broken = enqueue(app.public, "idempotency-key: a b\r\n", JOB).await;
    assert_eq!(
        broken.problem(400, "invalid-fields")["errors"][0]["field"],
        "Idempotency-Key"
    );
}

/// Empties the queue; returns the identifiers of its messages, which may be duplicates.
async fn drain_all(broker: &Broker) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    while let Some(message) = broker.get("jobs").await {
        ids.insert(message.properties.message_id().clone().unwrap().to_string());
        message.ack(Default::default()).await.unwrap();
    }
    ids
}

#[tokio::test]
async fn a_key_whose_job_was_refused_stands_for_the_same_job_later() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let key = "idempotency-key: k-2\r\n";
    fill(&broker, &app).await;
    refused(&enqueue(app.public, key, JOB).await);
    broker.policy(json!({})).await;
    let id = until("the queue to have room", async || {
        let response = enqueue(app.public, key, JOB).await;
        (response.status == 202)
            .then(|| accepted(&response))
            .ok_or(response.text())
    })
    .await;
    assert_eq!(accepted(&enqueue(app.public, key, JOB).await), id);
    assert!(drain_all(&broker).await.contains(&id));
}

#[tokio::test]
async fn what_is_not_a_job_is_refused_before_the_broker_sees_it() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    for body in ["", "[]", "1", "{", "null"] {
        post(app.public, "/jobs", body)
            .await
            .problem(400, "malformed-json");
    }
    let largest = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let too_large = post(app.public, "/jobs", largest(64 * 1024 + 1)).await;
    too_large.problem(413, "body-too-large");
    let request = format!(
        "POST /jobs HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{JOB}",
        JOB.len()
    );
    send(app.public, request)
        .await
        .problem(415, "unsupported-media-type");
    assert_eq!(broker.counts("jobs").await.0, 0);
    accepted(&post(app.public, "/jobs", largest(64 * 1024)).await);
    assert_eq!(broker.counts("jobs").await.0, 1);
}

#[tokio::test]
async fn a_task_that_is_not_public_is_refused_before_the_broker_sees_it() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    for task in RESERVED {
        let escaped = task.replace('e', "\\u0065").replace('w', "\\u0077");
        for body in [
            format!(r#"{{"task":"{task}"}}"#),
            format!(r#"{{"task":"{escaped}"}}"#),
            format!(r#"{{"task":"email","id":1,"task":"{task}"}}"#),
            format!(r#"{{"task":"email","t\u0061sk":"{task}"}}"#),
        ] {
            let refused = post(app.public, "/jobs", body.as_str()).await;
            let problem = refused.problem(403, "task-not-public");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("queue.publicTasks"), "{body}: {detail}");
        }
    }
    // The key of a refused request stands for nothing.
    let key = "idempotency-key: k-3\r\n";
    let refused = enqueue(app.public, key, r#"{"task":"wait"}"#).await;
    refused.problem(403, "task-not-public");
    assert_eq!(broker.counts("jobs").await.0, 0);
    for body in [
        "{}",
        r#"{"task":"wait","task":"email"}"#,
        r#"{"task":"Wait"}"#,
    ] {
        accepted(&enqueue(app.public, "", body).await);
    }
    accepted(&enqueue(app.public, key, JOB).await);
}

#[tokio::test]
async fn the_settings_name_the_tasks_that_are_public() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    for (list, public, other) in [
        ("wait", r#"{"task":"wait","ms":0}"#, JOB),
        (
            "*,wait",
            r#"{"task":"wait","ms":0}"#,
            r#"{"task":"reindex"}"#,
        ),
        ("email", JOB, "{}"),
    ] {
        let app = App::start_with(&database, |config| {
            config.queue.queue_url = Some(broker.url());
            config.queue.public_tasks = PublicTasks::parse(list).unwrap();
        })
        .await;
        metrics::wait_for(app.internal, "queue_up 1").await;
        accepted(&post(app.public, "/jobs", public).await);
        let refused = post(app.public, "/jobs", other).await;
        refused.problem(403, "task-not-public");
    }
}

async fn survives(database: &PgConnectOptions, path_of_bytes: Path) {
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let app = app_with(database, broker.url_at(proxy.address)).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    let mut jobs = BTreeSet::new();
    for _ in 0..2 {
        jobs.insert(accepted(&post(app.public, "/jobs", JOB).await));
        proxy.set(path_of_bytes);
        let answers = join_all((0..4).map(|_| post(app.public, "/jobs", JOB))).await;
        answers.iter().for_each(refused);
        refused(&post(app.public, "/jobs", JOB).await);
        let followed = get(app.public, &format!("/{code}")).await;
        assert_eq!(followed.status, 302, "{followed:?}");
        shorten(app.public, json!({"url": "https://example.com/"})).await;
        assert_eq!(
            get(app.internal, "/readyz").await.status,
            200,
            "the replica stays ready, because links work"
        );
        proxy.set(Path::Open);
        jobs.insert(recovered(&app).await);
    }
    let queued = drain(&broker).await;
    assert!(
        queued.is_superset(&jobs),
        "{jobs:?} are not all in {queued:?}"
    );
}

#[tokio::test]
async fn jobs_at_a_silent_broker_are_bounded_by_their_bytes() {
    // Their bodies fit into the memory of bodies, even if all of them are read at the same time.
    const JOBS: usize = 95;
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let app = app_with(&database, broker.url_at(proxy.address)).await;
    proxy.set(Path::Silent);
    let job = json!({"task": "email", "text": "x".repeat(60_000)}).to_string();
    let answers = join_all((0..JOBS).map(|_| post(app.public, "/jobs", job.clone()))).await;
    answers.iter().for_each(refused);
    let busy = "messaging_client_sent_messages_total{messaging_system=\"rabbitmq\",\
        messaging_operation_name=\"publish\",messaging_destination_name=\"jobs\",error_type=\"busy\"}";
    // The library has a copy of each.
    let fit = Memory::default().budget(Buffer::Jobs).limit() / (2 * job.len());
    let refused = metrics::value(app.internal, busy).await;
    assert_eq!(refused, (JOBS - fit) as u64);
    assert_eq!(
        metrics::value(app.internal, "buffer_bytes{buffer=\"bodies\"}").await,
        0,
        "jobs that wait leave the memory of bodies to others"
    );
}

#[tokio::test]
async fn a_broker_that_is_down_stops_jobs_and_nothing_else() {
    let database = TestDatabase::new().await;
    survives(&database, Path::Refused).await;
}

#[tokio::test]
async fn a_broker_that_fell_silent_stops_jobs_and_nothing_else() {
    let database = TestDatabase::new().await;
    survives(&database, Path::Silent).await;
}

#[tokio::test]
async fn the_application_starts_without_a_broker_and_finds_it_later() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    proxy.set(Path::Refused);
    let url = broker.url_at(proxy.address);
    let app = App::start_with(&database, |config| config.queue.queue_url = Some(url)).await;
    refused(&post(app.public, "/jobs", JOB).await);
    shorten(app.public, json!({"url": "https://example.com/"})).await;
    proxy.set(Path::Open);
    let id = recovered(&app).await;
    assert_eq!(drain(&broker).await, BTreeSet::from([id]));
}

#[tokio::test]
async fn a_full_queue_refuses_exactly_the_jobs_that_it_does_not_take() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    broker.policy(json!({"max-length": 1})).await;
    let mut taken = BTreeSet::new();
    let mut some_refused = false;
    while !some_refused {
        let answers = join_all((0..32).map(|_| post(app.public, "/jobs", JOB))).await;
        for response in &answers {
            if response.status == 202 {
                taken.insert(accepted(response));
            } else {
                refused(response);
                some_refused = true;
            }
        }
    }
    assert_eq!(drain(&broker).await, taken);
    recovered(&app).await;
}

#[tokio::test]
async fn a_deleted_queue_comes_back_and_no_accepted_job_is_missing() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    for _ in 0..3 {
        for object in ["queues/jobs", "queues/jobs.dlq", "exchanges/jobs.dlx"] {
            broker.delete(object).await;
        }
        let answers = join_all((0..32).map(|_| post(app.public, "/jobs", JOB))).await;
        let mut taken: BTreeSet<String> = answers
            .iter()
            .filter(|response| response.status == 202)
            .map(accepted)
            .collect();
        answers
            .iter()
            .filter(|response| response.status != 202)
            .for_each(refused);
        taken.insert(recovered(&app).await);
        assert_eq!(drain(&broker).await, taken);
        assert!(broker.has("jobs.dlq").await);
    }
}

#[tokio::test]
async fn what_became_of_a_job_is_read_from_the_ledger() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let id = accepted(&post(app.public, "/jobs", JOB).await);
    let path = format!("/jobs/{id}");
    get(app.public, &path).await.problem(404, "not-found");
    for malformed in ["/jobs/1", "/jobs/x%ff", "/jobs/"] {
        get(app.public, malformed).await.problem(404, "not-found");
    }
    let mut ledger = database.connect().await.unwrap();
    let row = sqlx::AssertSqlSafe(format!(
        "INSERT INTO jobs (message_id, task, client_id, state, started_at) VALUES ('{id}', 'email', '1', 'running', '2030-01-01T00:00:00Z')"
    ));
    ledger.execute(row).await.unwrap();
    let expected = |status: &str, end: Value, error: Value| {
        json!({"id": id, "task": "email", "client_id": "1", "status": status, "attempts": 1,
            "started_at": "2030-01-01T00:00:00Z", "finished_at": end, "error": error})
    };
    let running = expected("running", Value::Null, Value::Null);
    assert_eq!(get(app.public, &path).await.json(), running);
    let failed = "UPDATE jobs SET state = 'failed', error = 'it broke', finished_at = '2030-01-01T00:00:01Z'";
    ledger.execute(failed).await.unwrap();
    let failed = expected("failed", json!("2030-01-01T00:00:01Z"), json!("it broke"));
    assert_eq!(get(app.public, &path).await.json(), failed);
}

#[tokio::test]
async fn a_job_that_was_accepted_is_known_before_a_worker_has_it() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = async |key: Option<&str>| {
        let (url, key) = (broker.url(), key.map(str::to_owned));
        let app = App::start_with(&database, |config| {
            config.queue.queue_url = Some(url);
            config.job_id_key = key;
        })
        .await;
        metrics::wait_for(app.internal, "queue_up 1").await;
        app
    };
    let key = "hF3kq0mXc8VbT2nLwRz5sJyD7gAePu4K";
    let one = app(Some(key)).await;
    let id = accepted(&post(one.public, "/jobs", JOB).await);
    let repeated = "idempotency-key: k-4\r\n";
    let once = accepted(&enqueue(one.public, repeated, JOB).await);
    let another_replica = app(Some(key)).await;
    let of_another_stack = app(Some("another key of 32 characters xyz")).await;
    let keyless = app(None).await;
    for id in [&id, &once] {
        let path = format!("/jobs/{id}");
        let known = json!({"id": id, "task": "", "client_id": null, "status": "enqueued", "attempts": 0,
            "started_at": null, "finished_at": null, "error": null});
        for replica in [&one, &another_replica] {
            let response = get(replica.public, &path).await;
            assert_eq!((response.status, response.json()), (200, known.clone()));
        }
        for other in [&of_another_stack, &keyless] {
            get(other.public, &path).await.problem(404, "not-found");
        }
    }
    for never_given_out in [
        uuid::Uuid::now_v7().to_string(),
        uuid::Uuid::nil().to_string(),
        id.replace(&id[..1], "f"),
    ] {
        let path = format!("/jobs/{never_given_out}");
        get(one.public, &path).await.problem(404, "not-found");
    }
    // A worker that has it knows more.
    let mut ledger = database.connect().await.unwrap();
    let row = sqlx::AssertSqlSafe(format!(
        "INSERT INTO jobs (message_id, task, state) VALUES ('{id}', 'email', 'running')"
    ));
    ledger.execute(row).await.unwrap();
    let running = get(one.public, &format!("/jobs/{id}")).await.json();
    assert_eq!(
        (&running["status"], &running["task"]),
        (&json!("running"), &json!("email"))
    );
}

#[tokio::test]
async fn publications_are_counted_with_their_outcome_and_their_trace() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let app = app_with(&database, broker.url_at(proxy.address)).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!("traceparent: 00-{trace}-b7ad6b7169203331-00\r\n");
    accepted(&enqueue(app.public, &headers, JOB).await);
    proxy.set(Path::Refused);
    refused(&post(app.public, "/jobs", JOB).await);
    let accept = "accept: application/openmetrics-text\r\n";
    let text = crate::client::request(app.internal, "GET", "/metrics", accept)
        .await
        .text();
    let series = "messaging_client_sent_messages_total{messaging_system=\"rabbitmq\",messaging_operation_name=\"publish\",messaging_destination_name=\"jobs\"";
    assert!(text.contains(&format!("{series}}} 1\n")), "{text}");
    assert!(
        text.contains(&format!("{series},error_type=\"away\"}} 1\n")),
        "{text}"
    );
    let exemplar = format!("# {{trace_id=\"{trace}\"");
    let bucket = |line: &str| {
        line.starts_with("messaging_client_operation_duration_seconds_bucket")
            && line.contains(&exemplar)
    };
    assert!(text.lines().any(bucket), "{text}");
}
