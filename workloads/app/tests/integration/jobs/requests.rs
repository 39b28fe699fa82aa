//! The requests that become jobs, and those that the broker never sees.

use shortener_common::queue::{
    job::Job,
    origin::Origin,
    public_tasks::{PublicTasks, RESERVED},
};
use shortener_testing::{broker::Broker, database::TestDatabase, metrics};

use super::{JOB, accepted, app_with, enqueue};
use crate::{
    client::{post, send},
    support::App,
};

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
async fn a_job_that_can_never_succeed_is_refused_before_the_broker_sees_it() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(broker.url());
        config.public_tasks = PublicTasks::parse("*,reindex,wait").unwrap();
        // Nothing listens there.
        config.vector.vector_url = Some("http://127.0.0.1:1".to_owned());
    })
    .await;
    metrics::wait_for(app.internal, "queue_up 1").await;
    for (body, field) in [
        (r#"{"task":"index"}"#, "id"),
        (r#"{"task":"index","id":"7"}"#, "id"),
        (r#"{"task":"index","id":7,"i\u0064":-7}"#, "id"),
        (r#"{"task":"wait","ms":60001}"#, "ms"),
    ] {
        let refused = post(app.public, "/jobs", body).await;
        let problem = refused.problem(400, "invalid-fields");
        assert_eq!(problem["errors"][0]["field"], field, "{body}");
    }
    for body in [
        r#"{"task":"index","id":7}"#,
        r#"{"task":"wait","ms":60000}"#,
    ] {
        accepted(&post(app.public, "/jobs", body).await);
        let message = broker.get("jobs").await.unwrap();
        assert_eq!(message.data, body.as_bytes());
        message.ack(Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn tasks_of_documents_need_the_vector_profile() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(broker.url());
        config.public_tasks = PublicTasks::parse("*,reindex").unwrap();
    })
    .await;
    metrics::wait_for(app.internal, "queue_up 1").await;
    for body in [r#"{"task":"index","id":7}"#, r#"{"task":"reindex"}"#] {
        let refused = post(app.public, "/jobs", body).await;
        refused.problem(501, "profile-disabled");
    }
    assert_eq!(broker.counts("jobs").await.0, 0);
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
            r#"{"task":"purge_expired"}"#,
        ),
        ("email", JOB, "{}"),
    ] {
        let app = App::start_with(&database, |config| {
            config.queue.queue_url = Some(broker.url());
            config.public_tasks = PublicTasks::parse(list).unwrap();
        })
        .await;
        metrics::wait_for(app.internal, "queue_up 1").await;
        accepted(&post(app.public, "/jobs", public).await);
        let refused = post(app.public, "/jobs", other).await;
        refused.problem(403, "task-not-public");
    }
}
