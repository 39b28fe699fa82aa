//! A broker that is killed, short of disk space, full, or that lost its queues: jobs are refused with 503 and
//! `Retry-After`, redirects are not affected, every accepted job is done, and the service recovers by itself (A5).
//! The tests of a replaced broker are in `queue`.
//!
//! Specification: 3.2, 7.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{
    Broker, GatewayClient, Job, SharedStack, await_condition, pods_of,
    redirects_are_right_and_quick, wait_job, with_queue,
};

/// Jobs that are enqueued before the outage.
const BEFORE: usize = 5;
/// Far more jobs than the test's full queue accepts.
const MANY: usize = 200;
const FILE: &str = "rabbitmq.conf";
const DISK_LIMIT: &str = "disk_free_limit.absolute";

#[tokio::test]
async fn a_broker_that_is_killed_and_then_short_of_disk_space_loses_no_accepted_job() -> Result<()>
{
    with_queue(async |shared| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let mut accepted = Vec::new();
        for _ in 0..BEFORE {
            accepted.push(gateway.enqueue(&wait_job(500)).await?);
        }
        stack.pause().await?;
        let file = configuration(shared).await?;
        let outcome = async {
            demand_disk_space(shared, &file).await?;
            stack.kill("rabbitmq").await?;
            the_alarm_is_on(shared).await?;
            for _ in 0..3 {
                let answer = gateway.post("/api/jobs", &wait_job(0)).await?;
                answer.check_unavailable()?;
            }
            redirects_are_right_and_quick(gateway).await
        }
        .await;
        // The operator restores the file, and the server reads it when it starts.
        stack.edit(json!({"paused": false})).await?;
        await_condition(
            "the operator has restored the broker's configuration",
            async || {
                let now = configuration(shared).await?;
                ensure!(now == file, "{now}");
                Ok(())
            },
        )
        .await?;
        stack.kill("rabbitmq").await?;
        outcome?;
        accepted.push(taken_again(gateway).await?);
        done(gateway, &accepted).await?;
        stack.ready().await
    })
    .await
}

#[tokio::test]
async fn a_full_queue_refuses_jobs_and_every_one_that_it_took_is_done() -> Result<()> {
    with_queue(async |shared| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        stack.edit(json!({"workers": {"replicas": 0}})).await?;
        await_condition("no worker is left", async || {
            let left = pods_of(stack, "worker").await?.len();
            ensure!(left == 0, "{left} workers are left");
            Ok(())
        })
        .await?;
        let broker = Broker::open_as_operator(stack).await?;
        let policy = "policies/%2f/e2e-small";
        let small = json!({
            "pattern": "^jobs$", "apply-to": "queues", "priority": 100,
            "definition": {"max-length": 3, "overflow": "reject-publish"},
        });
        broker.ask(Method::PUT, policy, Some(&small)).await?;
        let outcome = async {
            let accepted = filled(gateway).await?;
            redirects_are_right_and_quick(gateway).await?;
            anyhow::Ok(accepted)
        }
        .await;
        broker.ask(Method::DELETE, policy, None).await?;
        stack.edit(json!({"workers": {"replicas": 1}})).await?;
        let mut accepted = outcome?;
        accepted.push(taken_again(gateway).await?);
        done(gateway, &accepted).await?;
        stack.ready().await
    })
    .await
}

#[tokio::test]
async fn queues_and_exchange_that_were_deleted_come_back_with_their_worker() -> Result<()> {
    with_queue(async |shared| {
        let gateway = &shared.gateway;
        let broker = Broker::open(&shared.stack).await?;
        for object in [
            "exchanges/%2f/jobs.dlx",
            "queues/%2f/jobs.dlq",
            "queues/%2f/jobs",
        ] {
            broker.ask(Method::DELETE, object, None).await?;
        }
        redirects_are_right_and_quick(gateway).await?;
        let accepted = [taken_again(gateway).await?];
        done(gateway, &accepted).await?;
        broker
            .publish("jobs", "01920000-0000-7000-8000-00000000f00d", "not a job")
            .await?;
        await_condition(
            "a message that is not a job is a dead letter again",
            async || {
                let letters = broker.depth("jobs.dlq").await?;
                ensure!(letters.total == 1, "{letters:?}");
                Ok(())
            },
        )
        .await?;
        let letters = "queues/%2f/jobs.dlq/contents";
        broker.ask(Method::DELETE, letters, None).await.map(|_| ())
    })
    .await
}

/// Enqueues jobs until the queue is full, and returns the accepted ones.
async fn filled(gateway: &GatewayClient) -> Result<Vec<Job>> {
    let mut accepted = Vec::new();
    while accepted.len() < MANY {
        let answer = gateway.post("/api/jobs", &wait_job(0)).await?;
        if answer.status != 202 {
            answer.check_unavailable()?;
            println!("full after {} jobs", accepted.len());
            ensure!(!accepted.is_empty(), "the empty queue accepted no job");
            return Ok(accepted);
        }
        accepted.push(Job::accepted(&answer)?);
    }
    anyhow::bail!("a queue with max-length 3 accepted {MANY} jobs")
}

/// Waits until a job is accepted; until then every answer must be a 503 with `Retry-After`.
async fn taken_again(gateway: &GatewayClient) -> Result<Job> {
    await_condition("a job is accepted", async || {
        let answer = gateway.post("/api/jobs", &wait_job(0)).await?;
        if answer.status == 202 {
            return Ok(Job::accepted(&answer));
        }
        // Any other answer is a permanent failure, so it ends the wait.
        match answer.check_unavailable() {
            Ok(()) => anyhow::bail!("still refused"),
            Err(wrong) => Ok(Err(wrong)),
        }
    })
    .await?
}

async fn done(gateway: &GatewayClient, accepted: &[Job]) -> Result<()> {
    for job in accepted {
        gateway.wait_for_job_status(&job.id, "done").await?;
    }
    Ok(())
}

/// Returns the configuration file that the broker reads when it starts.
async fn configuration(shared: &SharedStack) -> Result<String> {
    let data = config_maps(shared).get("acme-rabbitmq").await?.data;
    let file = data.unwrap_or_default().remove(FILE);
    file.with_context(|| format!("no {FILE} in the ConfigMap"))
}

/// Makes the broker require more free space than any disk has.
async fn demand_disk_space(shared: &SharedStack, file: &str) -> Result<()> {
    let lines = file.lines().map(|line| match line.split_once(" = ") {
        Some((DISK_LIMIT, _)) => format!("{DISK_LIMIT} = {}\n", 1_u64 << 50),
        _ => format!("{line}\n"),
    });
    let demanding: String = lines.collect();
    ensure!(demanding != *file, "no {DISK_LIMIT} in {file}");
    let patch = Patch::Merge(json!({"data": {FILE: demanding}}));
    config_maps(shared)
        .patch("acme-rabbitmq", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn the_alarm_is_on(shared: &SharedStack) -> Result<()> {
    await_condition("the broker is short of disk space", async || {
        let broker = Broker::open_as_operator(&shared.stack).await?;
        let nodes = broker.ask(Method::GET, "nodes", None).await?;
        ensure!(nodes[0]["disk_free_alarm"] == true, "{nodes}");
        Ok(())
    })
    .await
}

fn config_maps(shared: &SharedStack) -> Api<ConfigMap> {
    Api::namespaced(shared.space.client.clone(), &shared.space.name)
}
