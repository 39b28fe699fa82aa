//! The profile `queue`: the specification's table of a job's states, row by row, and operations on jobs from outside.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Api, ResourceExt, api::DeleteParams};
use reqwest::Method;
use serde_json::{Value, json};
use shortener_e2e::{
    Broker, Depth, Job, Stack, await_condition, children_of, kubectl, log_of_job, pods_of,
    wait_job, with_queue,
};

/// Specification: 4.5, 3.2, 2.4.
#[tokio::test]
async fn a_job_is_answered_before_it_is_processed() -> Result<()> {
    with_queue(async |shared| {
        let job = shared.gateway.enqueue(&wait_job(3000)).await?;
        let answered = Timestamp::now();
        let entry = shared.gateway.wait_for_job_status(&job.id, "done").await?;
        assert_eq!(
            (&entry["task"], &entry["attempts"]),
            (&json!("wait"), &json!(1))
        );
        // The status itself may be read late, on a busy machine. The nodes of a local cluster have the clock of the test.
        let finished = entry["finished_at"].as_str().context("no time")?;
        ensure!(
            answered < finished.parse()?,
            "answered at {answered}: {entry}"
        );
        Ok(())
    })
    .await
}

/// Specification: 2.3, 4.3.
#[tokio::test]
async fn the_example_of_the_specification_is_done_by_the_default_task() -> Result<()> {
    with_queue(async |shared| {
        let job = json!({"task": "email", "id": 1});
        let job = shared.gateway.enqueue(&job).await?;
        let entry = shared.gateway.wait_for_job_status(&job.id, "done").await?;
        assert_eq!(entry["client_id"], "1", "{entry}");
        Ok(())
    })
    .await
}

/// Specification: 6, 3.2, 2.7.
#[tokio::test]
async fn the_worker_logs_start_and_end_of_a_job_with_the_trace_of_its_request() -> Result<()> {
    with_queue(async |shared| {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let request = shared
            .gateway
            .request(Method::POST, "/api/jobs")
            .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
            .json(&json!({"task": "email", "id": 77}));
        let job = Job::accepted(&shared.gateway.send(request).await?)?;
        assert_eq!(job.trace_id, trace);
        shared.gateway.wait_for_job_status(&job.id, "done").await?;
        for event in ["job_start", "job_done"] {
            let line = only_line(&shared.stack, event, &job).await?;
            assert_eq!(line["event"], event);
            assert_eq!(line["trace_id"], trace, "{line}");
            assert_eq!(line["job.client_id"], "77", "{line}");
            let host = line["host"].as_str().unwrap_or_default();
            ensure!(host.starts_with("acme-worker-"), "{line}");
        }
        Ok(())
    })
    .await
}

/// Specification: 2.5, 8, 3.2.
#[tokio::test]
async fn three_workers_hold_one_unacknowledged_job_each() -> Result<()> {
    with_queue(async |shared| {
        let stack = &shared.stack;
        kubectl(stack, &["scale", "sst/acme", "--replicas=3"]).await?;
        workers_are(stack, 3).await?;
        let mut jobs = Vec::new();
        for _ in 0..5 {
            // The longest time of a job, and as long as a worker that is removed waits for its own.
            jobs.push(shared.gateway.enqueue(&wait_job(60_000)).await?);
        }
        let expected = Depth {
            ready: 2,
            unacked: 3,
            total: 5,
        };
        let broker = Broker::open(stack).await?;
        await_condition("the broker shows 2 ready and 3 unacked", async || {
            let depth = broker.depth("jobs").await?;
            ensure!(depth == expected, "{depth:?}");
            Ok(())
        })
        .await?;
        await_condition("the status shows them too", async || {
            let queue = stack.get().await?.data["status"]["queue"].clone();
            ensure!(
                queue == json!({"ready": 2, "unacked": 3, "total": 5}),
                "{queue}"
            );
            Ok(())
        })
        .await?;
        columns_show(stack, &[("PROFILES", "queue"), ("JOBS", "5")]).await?;
        let mut hosts = BTreeSet::new();
        for job in &jobs {
            for line in log_of_job(stack, "job_start", &job.id).await? {
                hosts.insert(line["host"].to_string());
            }
        }
        ensure!(
            hosts.len() == 3,
            "expected jobs to begin on 3 workers, got {hosts:?}"
        );

        // The waiting jobs are not needed any more.
        broker
            .ask(Method::DELETE, "queues/%2f/jobs/contents", None)
            .await?;
        stack.edit(json!({"workers": {"replicas": 1}})).await?;
        workers_are(stack, 1).await?;
        // Workers that are removed finish the jobs that they hold.
        await_condition("the three begun jobs are done", async || {
            let mut done = 0;
            for job in &jobs {
                let entry = shared.gateway.job(&job.id).await?;
                done += usize::from(entry.is_some_and(|entry| entry["status"] == "done"));
            }
            // One that ended early made room for another.
            ensure!(done >= 3, "{done} jobs are done");
            Ok(())
        })
        .await
    })
    .await
}

/// Specification: 3.2, 7, 8.
#[tokio::test]
async fn a_job_of_a_killed_worker_is_delivered_again_and_done_once() -> Result<()> {
    with_queue(async |shared| {
        let job = shared.gateway.enqueue(&wait_job(15_000)).await?;
        shared
            .gateway
            .wait_for_job_status(&job.id, "running")
            .await?;
        let killed = pods_of(&shared.stack, "worker").await?;
        let killed = killed
            .first()
            .context("the stack has no worker")
            .map(ResourceExt::name_any)?;
        let pods = Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name);
        pods.delete(&killed, &DeleteParams::default().grace_period(0))
            .await?;
        let entry = shared.gateway.wait_for_job_status(&job.id, "done").await?;
        assert_eq!(entry["attempts"], 2, "{entry}");
        let line = only_line(&shared.stack, "job_done", &job).await?;
        ensure!(line["host"] != json!(killed), "{line}");
        Ok(())
    })
    .await
}

/// Specification: 7.
#[tokio::test]
async fn while_the_broker_is_away_jobs_are_refused_and_no_accepted_one_is_lost() -> Result<()> {
    with_queue(async |shared| {
        let url = "https://example.com/without-a-broker";
        let code = shared.gateway.shorten(url).await?;
        let mut accepted = Vec::new();
        for _ in 0..5 {
            accepted.push(shared.gateway.enqueue(&wait_job(200)).await?);
        }
        let pods = Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name);
        pods.delete("acme-rabbitmq-0", &DeleteParams::default())
            .await?;
        let mut refused = 0;
        await_condition("jobs are refused, then accepted again", async || {
            let answer = shared.gateway.post("/api/jobs", &wait_job(0)).await?;
            match answer.status {
                202 => accepted.push(Job::accepted(&answer)?),
                503 => {
                    answer.check_unavailable()?;
                    refused += 1;
                }
                // Any other answer is a permanent failure, so it ends the wait.
                _ => return Ok(Err(answer)),
            }
            shared.gateway.assert_redirects(&code, url).await?;
            ensure!(
                refused > 0 && answer.status == 202,
                "{refused} jobs were refused so far; last status {}",
                answer.status
            );
            Ok(Ok(()))
        })
        .await?
        .map_err(|answer| anyhow::anyhow!("expected status 202 or 503, got {answer:?}"))?;
        println!("{} jobs accepted, {refused} refused", accepted.len());
        for job in &accepted {
            shared.gateway.wait_for_job_status(&job.id, "done").await?;
        }
        shared.stack.ready().await
    })
    .await
}

/// Specification: 2.3.
#[tokio::test]
async fn the_same_key_makes_two_requests_one_job() -> Result<()> {
    with_queue(async |shared| {
        let key = format!("key-{}", std::process::id());
        let request = || {
            let request = shared.gateway.request(Method::POST, "/api/jobs");
            request.header("idempotency-key", &key).json(&wait_job(0))
        };
        let first = Job::accepted(&shared.gateway.send(request()).await?)?;
        let second = Job::accepted(&shared.gateway.send(request()).await?)?;
        assert_eq!(first.id, second.id);
        shared
            .gateway
            .wait_for_job_status(&first.id, "done")
            .await?;
        Ok(())
    })
    .await
}

/// Specification: 2.3.
#[tokio::test]
async fn a_job_that_is_not_an_object_is_refused() -> Result<()> {
    with_queue(async |shared| {
        for job in [json!([1]), json!("email"), json!(null)] {
            let answer = shared.gateway.post("/api/jobs", &job).await?;
            assert_eq!(answer.status, 400, "{answer:?}");
        }
        let large = json!({"task": "email", "padding": "x".repeat(64 * 1024)});
        let answer = shared.gateway.post("/api/jobs", &large).await?;
        assert_eq!(answer.status, 413, "{answer:?}");
        Ok(())
    })
    .await
}

/// Specification: 5.
#[tokio::test]
async fn the_management_ui_wants_the_credentials_of_the_secret_and_no_gateway_leads_to_it()
-> Result<()> {
    with_queue(async |shared| {
        let stack = &shared.stack;
        let broker = Broker::open(stack).await?;
        let ui = &broker.http;
        ensure!(ui.get("/").await?.body.contains("RabbitMQ Management"));
        assert_eq!(ui.get("/api/overview").await?.status, 401);
        let overview = broker.ask(Method::GET, "overview", None).await?;
        ensure!(overview["rabbitmq_version"].is_string(), "{overview}");
        let users = broker.send(Method::GET, "/api/users", None).await?;
        assert_eq!(users.status, 401, "{users:?}");
        for path in ["/api/overview", "/api/queues", "/rabbitmq"] {
            let answer = shared.gateway.get(path).await?;
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
        }
        for child in children_of(stack).await? {
            let routed = child.kind.kind == "Ingress"
                && serde_json::to_string(&child.seen)?.contains("rabbitmq");
            ensure!(!routed, "{} routes requests to the broker", child.title());
        }
        Ok(())
    })
    .await
}

/// Returns the only line of this event that the workers wrote about a job.
async fn only_line(stack: &Stack, event: &str, job: &Job) -> Result<Value> {
    await_condition(
        &format!("{event} of job {} is logged", job.id),
        async || {
            let mut lines = log_of_job(stack, event, &job.id).await?;
            match (lines.pop(), lines.len()) {
                (Some(line), 0) => Ok(line),
                (last, more) => bail!("{} lines: {last:?}", more + usize::from(last.is_some())),
            }
        },
    )
    .await
}

/// Waits until `count` workers run and the status says so.
async fn workers_are(stack: &Stack, count: usize) -> Result<()> {
    await_condition(&format!("{count} workers run"), async || {
        let pods = pods_of(stack, "worker").await?.len();
        let told = stack.get().await?.data["status"]["workers"]["replicas"].clone();
        ensure!(
            pods == count && told == count,
            "{pods} pods exist, the status names {told}"
        );
        stack.current("WorkersReady", "True").await.map(|_| ())
    })
    .await
}

/// Waits until `kubectl get` shows these values in these columns.
async fn columns_show(stack: &Stack, expected: &[(&str, &str)]) -> Result<()> {
    let table = kubectl(stack, &["get", "sst", "acme", "--output=wide"]).await?;
    let mut lines = table.lines().map(|line| line.split_whitespace());
    let (Some(heads), Some(values)) = (lines.next(), lines.next()) else {
        bail!("kubectl printed no table: {table}");
    };
    let row: Vec<_> = heads.zip(values).collect();
    for pair in expected {
        ensure!(row.contains(pair), "no {pair:?} in {table}");
    }
    Ok(())
}
