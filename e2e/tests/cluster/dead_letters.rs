//! Dead letters: jobs that become one, and the commands of `kubectl shortener dlq`.
//!
//! Specification: 3.2.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use shortener_e2e::{Broker, SharedStack, await_condition, wait_job, with_queue};
use tokio::process::Command;

#[tokio::test]
async fn what_can_never_be_done_becomes_a_dead_letter_and_holds_up_nobody() -> Result<()> {
    with_queue(async |shared| {
        let broker = Broker::open(&shared.stack).await?;
        // The app refuses the second job.
        let (id, refused) = (random_id(), random_id());
        let (id, refused) = (id.as_str(), refused.as_str());
        broker.publish("jobs", id, "this is not JSON").await?;
        let job = json!({"task": "wait", "ms": "soon"}).to_string();
        broker.publish("jobs", refused, &job).await?;
        let good = shared.gateway.enqueue(&wait_job(0)).await?;
        shared.gateway.wait_for_job_status(&good.id, "done").await?;
        let entry = shared
            .gateway
            .wait_for_job_status(refused, "failed")
            .await?;
        let why = entry["error"].as_str().unwrap_or_default();
        ensure!(why.contains("ms"), "{entry}");
        await_condition("both jobs are dead letters", async || {
            let list = dlq(shared, "ls", &[]).await?;
            ensure!(list.contains(id) && list.contains(refused), "{list}");
            Ok(())
        })
        .await?;
        let shown = dlq(shared, "show", &[id]).await?;
        ensure!(shown.contains("this is not JSON"), "{shown}");
        dlq(shared, "drop", &[id]).await?;
        let list = dlq(shared, "ls", &[]).await?;
        ensure!(!list.contains(id) && list.contains(refused), "{list}");
        dlq(shared, "drop", &["--all"]).await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_dead_letter_is_replayed_under_its_own_id() -> Result<()> {
    with_queue(async |shared| {
        let broker = Broker::open(&shared.stack).await?;
        let id = random_id();
        let id = id.as_str();
        let body = json!({"task": "email", "id": 5}).to_string();
        broker.publish("jobs.dlq", id, &body).await?;
        await_condition("the dead letter is listed", async || {
            let list = dlq(shared, "ls", &[]).await?;
            ensure!(list.contains(id), "{list}");
            Ok(())
        })
        .await?;
        dlq(shared, "replay", &[id]).await?;
        let entry = shared.gateway.wait_for_job_status(id, "done").await?;
        assert_eq!(entry["client_id"], "5", "{entry}");
        Ok(())
    })
    .await
}

/// Returns an id of which the ledger, which outlives a run, knows nothing.
fn random_id() -> String {
    format!("01920000-0000-7000-8000-{:012x}", fastrand::u64(..1 << 48))
}

/// Runs `kubectl shortener dlq <action>` on the stack.
pub async fn dlq(shared: &SharedStack, action: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(shared.space.settings.plugin());
    command.args(["dlq", action, &shared.stack.name]);
    command.args(["--namespace", &shared.stack.namespace]);
    let output = command.args(arguments).output();
    let output = tokio::time::timeout(Duration::from_secs(60), output).await??;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "dlq {action} {arguments:?}: {printed}{complaint}"
    );
    Ok(printed)
}
