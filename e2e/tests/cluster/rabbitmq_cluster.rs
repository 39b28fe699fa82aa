//! A broker of three members that RabbitMQ's real operator runs: members that die, a stack that stops, and the end of it.

use std::{collections::BTreeMap, time::Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Job, Provider, Space, Stack, await_condition, commands, kubectl, paste, settled,
    small_broker_cluster, wait_job,
};
use tokio::{sync::watch, task::JoinHandle};

/// Number of members that die, one after the other.
const DEATHS: usize = 2;
const MEMBERS: usize = 3;
/// A RabbitmqCluster that no stack owns: RabbitMQ's operator 2.16.0 may make it again, empty, while it is being deleted.
const MADE_AGAIN: &str = "RabbitmqCluster= ";
/// Label of the members' pods.
const PODS: &str = "--selector=app.kubernetes.io/name=acme-mq";

/// Jobs that wait while a stack changes its broker, each of which takes a second.
const WAITING: usize = 20;

fn spec() -> Value {
    json!({
        "profiles": ["queue"],
        "queue": {"managed": null, "rabbitmqCluster": small_broker_cluster()},
    })
}

/// Enqueues jobs until it is stopped, and returns those that were accepted.
struct Enqueuer {
    stop: watch::Sender<bool>,
    jobs: JoinHandle<Vec<Job>>,
}

impl Enqueuer {
    fn start(gateway: &GatewayClient) -> Self {
        let (stop, stopped) = watch::channel(false);
        let gateway = gateway.clone();
        let jobs = tokio::spawn(async move {
            let mut jobs = Vec::new();
            while !*stopped.borrow() {
                // While another member takes over, jobs are refused.
                if let Ok(job) = gateway.enqueue(&wait_job(20)).await {
                    jobs.push(job);
                }
            }
            jobs
        });
        Self { stop, jobs }
    }

    async fn stop(self) -> Result<Vec<Job>> {
        self.stop.send(true)?;
        Ok(self.jobs.await?)
    }
}

/// Runs `rabbitmqctl` in a member, and returns what it prints.
async fn rabbitmqctl(stack: &Stack, arguments: &str) -> Result<String> {
    let running = "--field-selector=status.phase=Running";
    let pods = kubectl(stack, &["get", "pods", PODS, running, "--output=name"]).await?;
    let pod = pods.lines().next().context("no member runs")?;
    let exec = [
        "exec",
        pod,
        "--container=rabbitmq",
        "--",
        "rabbitmqctl",
        "--quiet",
    ];
    let arguments: Vec<&str> = exec.into_iter().chain(arguments.split(' ')).collect();
    kubectl(stack, &arguments).await
}

/// Returns what a member says about the queue of the jobs.
async fn queue(stack: &Stack) -> Result<Value> {
    let queues = "list_queues --formatter json name leader members online";
    let queues: Vec<Value> = serde_json::from_str(&rabbitmqctl(stack, queues).await?)?;
    let jobs = queues.into_iter().find(|queue| queue["name"] == "jobs");
    jobs.context("there is no queue of jobs")
}

/// Describes who holds the jobs that are not done.
async fn holders(stack: &Stack) -> Result<String> {
    let mut text = String::new();
    for list in [
        "list_queues name messages_ready messages_unacknowledged leader online",
        "list_connections pid name state connected_at",
        "list_channels pid connection messages_unacknowledged consumer_count",
        "list_consumers",
    ] {
        let lines = rabbitmqctl(stack, list).await?;
        text.push_str(&format!("{list}:\n{lines}\n"));
    }
    Ok(text)
}

/// Waits until the queue has a copy on every member, and each of them takes part.
async fn is_on_every_member(stack: &Stack) -> Result<()> {
    await_condition("the queue is on every member", async || {
        let queue = queue(stack).await?;
        for field in ["members", "online"] {
            let members = queue[field].as_array().map(Vec::len);
            ensure!(members == Some(MEMBERS), "{queue}");
        }
        Ok(())
    })
    .await
}

/// Kills the member that leads the queue, and waits until the status has said so and every member is back.
async fn lose_the_leader(stack: &Stack) -> Result<()> {
    let queue = queue(stack).await?;
    let leader = queue["leader"].as_str();
    let host = leader.and_then(|leader| leader.strip_prefix("rabbit@"));
    let pod = host.and_then(|host| host.split('.').next());
    let pod = format!("pod/{}", pod.context("the queue has no leader")?);
    kubectl(stack, &["delete", &pod, "--grace-period=0", "--force"]).await?;
    stack
        .until_reason("QueueReady", "False", "ClusterNotReady")
        .await?;
    stack
        .until_reason("QueueReady", "True", "ClusterReady")
        .await?;
    is_on_every_member(stack).await
}

#[tokio::test]
async fn members_that_die_take_no_accepted_job_along() -> Result<()> {
    Space::with("cluster-queue", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec()).await?;
        stack
            .until_reason("QueueReady", "True", "ClusterReady")
            .await?;
        is_on_every_member(&stack).await?;
        let enqueuer = Enqueuer::start(&gateway);
        for _ in 0..DEATHS {
            lose_the_leader(&stack).await?;
        }
        let jobs = enqueuer.stop().await?;
        println!("{} jobs were accepted", jobs.len());
        ensure!(!jobs.is_empty(), "no job was accepted");
        for job in &jobs {
            if let Err(error) = gateway.wait_for_job_status(&job.id, "done").await {
                return Err(error.context(holders(&stack).await?));
            }
        }
        none_is_done_twice(&stack).await?;
        stops_and_starts(&stack, &gateway).await?;
        ends(&stack).await
    })
    .await
}

#[tokio::test]
async fn accepted_jobs_are_done_when_a_stack_changes_from_a_managed_broker() -> Result<()> {
    Space::with("broker-change", async |space| {
        let spec = json!({"profiles": ["queue"]});
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec).await?;
        stack.until("WorkersReady", "True").await?;
        let mut jobs = Vec::new();
        for _ in 0..WAITING {
            jobs.push(gateway.enqueue(&wait_job(1000)).await?);
        }
        let begin = Instant::now();
        // The one of the page is larger than the cluster of the tests.
        let on_the_page = r#"{"replicas":3,"storage":"10Gi"}"#;
        for step in commands("high-availability.md", "### From a managed broker")? {
            let step = step.replace(on_the_page, &small_broker_cluster().to_string());
            let printed = paste(&stack, &step).await?;
            ensure!(printed.contains(" done"), "{printed}");
        }
        println!("no job was accepted for {} s", begin.elapsed().as_secs());
        // A pod of the app without the queue may still end.
        settled(&stack).await?;
        jobs.push(gateway.enqueue(&wait_job(0)).await?);
        for job in &jobs {
            gateway.wait_for_job_status(&job.id, "done").await?;
        }
        is_on_every_member(&stack).await
    })
    .await
}

/// A job that comes again, because its confirmation was lost, is not done again.
async fn none_is_done_twice(stack: &Stack) -> Result<()> {
    let log = kubectl(
        stack,
        &[
            "logs",
            "deployment/acme-worker",
            "--container=worker",
            "--tail=-1",
        ],
    )
    .await?;
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut done = BTreeMap::<String, usize>::new();
    for line in lines.filter(|line| line["body"] == "job_done") {
        let id = line["job.id"].as_str().context("a job without an id")?;
        *done.entry(id.to_owned()).or_default() += 1;
    }
    ensure!(!done.is_empty(), "the workers have logged no job");
    done.retain(|_, times| *times > 1);
    ensure!(done.is_empty(), "done more than once: {done:?}");
    Ok(())
}

/// Stops the stack, whose broker then has no members, and starts it again with the queue that it had.
async fn stops_and_starts(stack: &Stack, gateway: &GatewayClient) -> Result<()> {
    stack.edit(json!({"stopped": true})).await?;
    await_condition("the broker has no members", async || {
        let pods = kubectl(stack, &["get", "pods", PODS, "--output=name"]).await?;
        ensure!(pods.is_empty(), "{pods}");
        Ok(())
    })
    .await?;
    stack.edit(json!({"stopped": false})).await?;
    stack.ready().await?;
    is_on_every_member(stack).await?;
    let job = gateway.enqueue(&wait_job(0)).await?;
    gateway
        .wait_for_job_status(&job.id, "done")
        .await
        .map(|_| ())
}

/// Deletes the stack, whose policy deletes the data with it.
async fn ends(stack: &Stack) -> Result<()> {
    stack.delete().await?;
    await_condition("the RabbitmqCluster and its volumes are gone", async || {
        let kinds = "rabbitmqclusters.rabbitmq.com,persistentvolumeclaims";
        let owners =
            "--output=jsonpath={range .items[*]}{.kind}={.metadata.ownerReferences[*].kind} {end}";
        let left = kubectl(stack, &["get", kinds, owners]).await?;
        if left.contains(MADE_AGAIN) {
            let again = [
                "delete",
                "rabbitmqclusters.rabbitmq.com/acme-mq",
                "--wait=false",
            ];
            kubectl(stack, &again).await?;
        }
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await
}
