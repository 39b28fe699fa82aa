//! Section 2.5: the statistics in the broker's management UI.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, ensure};
use reqwest::Method;
use serde_json::Value;
use shortener_e2e::{Answer, Broker, Stack, await_condition, publication, wait_job};

use crate::report::Report;

const QUEUE: &str =
    "/api/queues/%2F/jobs?columns=name,messages_ready,messages_unacknowledged,messages";

/// The broker's route to the queue. Without a key, the app does not accept the task that keeps a worker busy.
const PUBLISH: &str = "/api/exchanges/%2f/amq.default/publish";

/// Enqueues enough jobs to keep every worker busy for a while, and two that wait.
pub(crate) async fn rows(report: &mut Report, stack: &Stack) -> Result<()> {
    let table = "2.5";
    let broker = Broker::open(stack).await?;
    report.row(table, "the broker's management UI requires credentials");
    let answer = report
        .ask(&broker.http, Method::GET, "/api/overview", None)
        .await;
    report.expect_status(&answer, 401);

    report.row(table, "the broker's management UI");
    let answer = report.ask(&broker, Method::GET, "/", None).await;
    report.expect_status(&answer, 200);
    report.expect_media_type(&answer, "a page", "text/html");

    report.row(table, "Ready, Unacked, and Total: Ready plus Unacked");
    let object = stack.get().await?;
    let workers = object.data["spec"]["workers"]["replicas"].as_u64();
    let workers = workers.unwrap_or(1);
    // Without a worker no job would ever be unacknowledged.
    ensure!(
        workers > 0,
        "stack {name} has no worker: start one with kubectl scale sst/{name} --replicas=1",
        name = stack.name
    );
    for number in 0..workers + 2 {
        let job = wait_job(12_000).to_string();
        let message = publication("jobs", &unused_id(number)?, &job);
        let answer = report
            .ask(&broker, Method::POST, PUBLISH, Some(&message))
            .await;
        report.expect_status(&answer, 200);
        report.expect_body(&answer, "a message in the queue", |answer| {
            answer["routed"] == true
        });
    }
    // A worker has to start its job, and the broker updates its counts only every few seconds.
    let mut last = Err(anyhow!("the broker was not asked"));
    let wait = await_condition("jobs are ready and unacked", async || {
        last = broker.send(Method::GET, QUEUE, None).await;
        ensure!(last.as_ref().is_ok_and(is_busy), "not yet");
        Ok(())
    });
    // The last answer says as much as the error.
    wait.await.ok();
    let answer = report.show(&format!("GET {QUEUE}"), last);
    report.expect_status(&answer, 200);
    report.expect("jobs that are ready and unacked", is_busy(&answer));
    report.expect_body(&answer, "a total that is the sum of both", |queue| {
        let (ready, unacked, total) = counts(queue);
        ready.zip(unacked).map(|(ready, unacked)| ready + unacked) == total && total.is_some()
    });
    Ok(())
}

/// Returns an identifier that no earlier run used: a worker would take its job for done.
fn unused_id(number: u64) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(format!("01920000-0000-7000-8{number:03x}-{now:012x}"))
}

fn is_busy(answer: &Answer) -> bool {
    let queue = answer.json().unwrap_or_default();
    let (ready, unacked, _) = counts(&queue);
    ready > Some(0) && unacked > Some(0)
}

/// Returns the messages that are ready, those that are unacknowledged, and all.
fn counts(queue: &Value) -> (Option<u64>, Option<u64>, Option<u64>) {
    let count = |field: &str| queue[field].as_u64();
    (
        count("messages_ready"),
        count("messages_unacknowledged"),
        count("messages"),
    )
}
