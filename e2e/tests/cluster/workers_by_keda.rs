//! Workers that the real KEDA scales, from none to some and back, by the objects in `examples/keda.yaml`.

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use shortener_e2e::{
    History, PATIENCE, Provider, Space, Stack, checkout, is_one_wave, is_part_of,
    kubectl_with_input, merge, settled, wait_job,
};

/// The largest number of workers.
const WORKERS: u8 = 3;
/// The number of jobs, and the time that each takes, in seconds.
const JOBS: u8 = 12;
const JOB: u8 = 30;

/// Returns what makes KEDA scale to zero, and wait for less than it does by default.
fn hurried() -> Value {
    let at_once = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    json!({"spec": {
        "minReplicaCount": 0, "maxReplicaCount": WORKERS, "pollingInterval": 5, "cooldownPeriod": 5,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": at_once}},
    }})
}

#[tokio::test]
async fn keda_starts_and_removes_workers_and_nothing_changes_them_back() -> Result<()> {
    // A single worker leaves so much to do that the others start in time on every machine.
    const _: () = assert!((JOBS - WORKERS) as u64 * JOB as u64 > PATIENCE.as_secs());
    Space::with("keda", async |space| {
        let queue = json!({"profiles": ["queue"]});
        let (stack, gateway) = space.serve(Provider::IngressNginx, queue).await?;
        settled(&stack).await?;
        let mut asked = History::of_workers_asked_for(&stack);
        let mut workers = History::of_pods(&stack, "worker");
        asked.until(1).await?;
        workers.until(1).await?;
        scale_by_keda(&stack).await?;
        workers.until(0).await?;
        stack
            .until_reason("WorkersReady", "True", "ScaledToZero")
            .await?;

        let mut jobs = Vec::new();
        for _ in 0..JOBS {
            let job = wait_job(u32::from(JOB) * 1000);
            jobs.push(gateway.enqueue(&job).await?);
        }
        workers.until(WORKERS.into()).await?;
        for job in &jobs {
            gateway.wait_for_job_status(&job.id, "done").await?;
        }
        workers.until(0).await?;
        asked.until(0).await?;

        let (asked, workers) = (asked.numbers()?, workers.numbers()?);
        println!("KEDA asked for {asked:?} workers, and the Deployment had {workers:?}");
        let [1, wave @ ..] = asked.as_slice() else {
            anyhow::bail!("{asked:?} does not begin with what the stack has by default");
        };
        ensure!(is_one_wave(wave), "{asked:?} was changed back and forth");
        ensure!(
            is_part_of(&workers, &asked),
            "the Deployment had {workers:?}, and KEDA asked for {asked:?}"
        );
        Ok(())
    })
    .await
}

/// Applies what the example has beside its stack, for this stack.
async fn scale_by_keda(stack: &Stack) -> Result<()> {
    let example = std::fs::read_to_string(checkout("../examples/keda.yaml"))?;
    let example = example
        .replace("demo", &stack.name)
        .replace(".links.svc", &format!(".{}.svc", stack.namespace));
    for document in serde_yaml::Deserializer::from_str(&example) {
        let mut object = Value::deserialize(document)?;
        match object["kind"].as_str() {
            Some("ShortenerStack") => continue,
            Some("ScaledObject") => merge(&mut object, hurried()),
            _ => {}
        }
        let apply = ["apply", "--server-side", "--filename=-"];
        kubectl_with_input(stack, &apply, &object.to_string()).await?;
    }
    Ok(())
}
