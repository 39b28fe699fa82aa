//! Switching the queue off while jobs wait.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{PersistentVolumeClaim, Secret},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{Provider, Space, await_condition};

#[tokio::test]
async fn disabling_the_queue_is_held_back_until_its_jobs_are_done_and_keeps_the_data() -> Result<()>
{
    Space::with("draining", async |space| {
        let changes = json!({"profiles": ["queue"], "deletionPolicy": "Retain"});
        let (stack, gateway) = space.serve(Provider::IngressNginx, changes).await?;
        let mut jobs = Vec::new();
        for _ in 0..4 {
            let job = json!({"task": "wait", "ms": 6000});
            jobs.push(gateway.enqueue(&job).await?);
        }
        stack.edit(json!({"profiles": []})).await?;
        let held = stack
            .until_reason("Progressing", "True", "DrainingQueue")
            .await?;
        ensure!(held.message.contains("force-disable"), "{}", held.message);
        await_condition("jobs are refused with 501", async || {
            let answer = gateway.post("/api/jobs", &json!({"task": "late"})).await?;
            ensure!(answer.status == 501, "expected status 501, got {answer:?}");
            Ok(())
        })
        .await?;
        broker_is_gone(space).await?;
        stack.ready().await?;
        let claims = Api::<PersistentVolumeClaim>::namespaced(space.client.clone(), &space.name);
        claims.get("acme-rabbitmq").await?;
        let secrets = Api::<Secret>::namespaced(space.client.clone(), &space.name);
        secrets.get("acme-rabbitmq").await?;

        stack.edit(json!({"profiles": ["queue"]})).await?;
        stack.ready().await?;
        for job in &jobs {
            gateway.wait_for_job_status(&job.id, "done").await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_annotation_gives_up_the_jobs_that_nobody_works_off() -> Result<()> {
    Space::with("force", async |space| {
        let changes = json!({"profiles": ["queue"], "workers": {"replicas": 0}});
        let (stack, gateway) = space.serve(Provider::Standalone, changes).await?;
        let job = gateway.enqueue(&json!({"task": "email"})).await?;
        // No worker has it, and it is known all the same.
        let waiting = json!({
            "id": job.id, "task": "", "client_id": null, "status": "enqueued", "attempts": 0,
            "started_at": null, "finished_at": null, "error": null,
        });
        assert_eq!(gateway.job(&job.id).await?, Some(waiting));
        let never_sent = "01920000-0000-7000-8000-00000000beef";
        assert_eq!(gateway.job(never_sent).await?, None);
        stack.edit(json!({"profiles": []})).await?;
        stack
            .until_reason("Progressing", "True", "DrainingQueue")
            .await?;
        let annotation = json!({"shortener.dev/force-disable": "queue"});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
        stack
            .api
            .patch("acme", &PatchParams::default(), &patch)
            .await?;
        broker_is_gone(space).await?;
        stack.ready().await
    })
    .await
}

async fn broker_is_gone(space: &Space) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(space.client.clone(), &space.name);
    let deployments = Api::<Deployment>::namespaced(space.client.clone(), &space.name);
    await_condition("broker and workers are gone", async || {
        ensure!(
            sets.get_opt("acme-rabbitmq").await?.is_none(),
            "the broker still exists"
        );
        ensure!(
            deployments.get_opt("acme-worker").await?.is_none(),
            "the workers still exist"
        );
        Ok(())
    })
    .await
}
