//! A stack as release 0.1.0 left it is taken over by this release: its database stays on the major version that made its
//! volume, the other stores roll to the versions of this release, and links and jobs survive. An upgrade after which the
//! operator renders the same objects restarts no pod (F13).
//!
//! `fixtures/0.1.0` has the chart of that release and the objects that it makes for a stack. Its own images were never
//! published: where an image of 0.1.0 cannot be pulled, the cluster's scripts give its name to one of this release.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use shortener_e2e::{
    Broker, GatewayClient, Job, Provider, Release, Space, Stack, await_condition, checkout,
    child_kinds, is_ready, pods_of, settled,
};

use crate::alone;

const TARGET: &str = "https://example.com/from-0.1.0";
const MANAGER: &str = "shortener-operator";
const MAJOR: &str = "shortener.dev/postgres-major";

#[tokio::test]
async fn a_stack_of_the_release_before_is_taken_over_with_its_links_and_jobs() -> Result<()> {
    let _alone = alone().await;
    Space::with("upgrade", async |space| {
        let release = Release::installed().await?;
        let before = checkout("fixtures/0.1.0/shortener-operator-0.1.0.tgz");
        release.replace_by(&before).await?;
        // The next tests need the operator of this release, whatever becomes of this one.
        let left = leave_a_stack(space).await;
        let back = release.put_back().await;
        let (stack, left) = left?;
        back?;
        taken_over(&stack, &left).await?;
        let outcome = no_pod_restarts(space, &stack, &release).await;
        release.put_back().await?;
        outcome
    })
    .await
}

/// Replaces the operator by one with another setting, by an upgrade of its chart. It renders the same objects, so every
/// pod of the stack stays.
async fn no_pod_restarts(space: &Space, stack: &Stack, release: &Release) -> Result<()> {
    settled(stack).await?;
    let before = pods(stack).await?;
    ensure!(before.len() >= 6, "only the pods {before:?}");
    release.upgrade_with("logLevel=debug").await?;
    // A repair shows that the new operator has looked at the stack.
    let config_maps = Api::<ConfigMap>::namespaced(space.client.clone(), &space.name);
    config_maps
        .delete("demo-gateway", &DeleteParams::default())
        .await?;
    await_condition("the new operator repairs drift", async || {
        config_maps.get("demo-gateway").await?;
        Ok(())
    })
    .await?;
    settled(stack).await?;
    let after = pods(stack).await?;
    ensure!(after == before, "{before:?} became {after:?}");
    Ok(())
}

/// Returns the names of the stack's pods, with their uids.
async fn pods(stack: &Stack) -> Result<BTreeMap<String, Option<String>>> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let its = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", stack.name));
    let pods = pods.list(&its).await?.items.into_iter();
    Ok(pods.map(|pod| (pod.name_any(), pod.uid())).collect())
}

/// State of the stack of 0.1.0 besides its objects.
struct Left {
    gateway: GatewayClient,
    /// A short link.
    code: String,
    /// A job that waits, because no worker runs.
    job: Job,
    /// Identity of the database's claim.
    claim: Option<String>,
}

/// Applies the stack and its objects as 0.1.0 did, shortens a link, and leaves a job in the queue.
async fn leave_a_stack(space: &Space) -> Result<(Stack, Left)> {
    let stack = space.stack("demo");
    let spec: Value = serde_yaml::from_str(&fixture(space, "stack.yaml", "")?)?;
    stack.apply(&spec).await?;
    let uid = stack.api.get(&stack.name).await?.uid();
    let objects = fixture(space, "objects.yaml", &uid.context("the stack has no uid")?)?;
    for document in serde_yaml::Deserializer::from_str(&objects) {
        make(space, Value::deserialize(document)?).await?;
    }
    for component in ["postgres", "cache", "rabbitmq", "app", "gateway", "worker"] {
        running(&stack, component).await?;
    }
    let gateway = GatewayClient::open(space, &stack, Provider::IngressNginx, &space.host()).await?;
    let code = gateway.shorten(TARGET).await?;
    gateway.wait_until_redirects(&code, TARGET).await?;
    scale_workers(space, 0).await?;
    await_condition("the worker is gone", async || {
        ensure!(pods_of(&stack, "worker").await?.is_empty());
        Ok(())
    })
    .await?;
    let job = await_condition("a job is accepted", async || {
        gateway.enqueue(&json!({"task": "email"})).await
    })
    .await?;
    let claim = database_claim(&stack).await?.uid();
    Ok((
        stack,
        Left {
            gateway,
            code,
            job,
            claim,
        },
    ))
}

/// Checks what the operator of this release makes of the stack.
async fn taken_over(stack: &Stack, left: &Left) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(stack.client.clone(), &stack.namespace);
    let image = async |name: &str| -> Result<String> {
        let set = sets.get(name).await?;
        let pod = set.spec.and_then(|spec| spec.template.spec);
        let image = pod.and_then(|pod| pod.containers.into_iter().next()?.image);
        image.with_context(|| format!("{name} has no image"))
    };
    await_condition("the stores have the images of this release", async || {
        let database = image("demo-postgres").await?;
        ensure!(
            database.contains("postgres:17.") && !database.ends_with(":17.6"),
            "the database runs {database}"
        );
        for (name, before) in [
            ("demo-cache", ":8.1.4"),
            ("demo-rabbitmq", ":4.2.5-management"),
        ] {
            let image = image(name).await?;
            ensure!(!image.ends_with(before), "{name} still runs {image}");
        }
        Ok(())
    })
    .await?;
    stack.ready().await?;
    left.gateway
        .wait_until_redirects(&left.code, TARGET)
        .await?;
    left.gateway
        .wait_for_job_status(&left.job.id, "done")
        .await?;
    let claim = database_claim(stack).await?;
    ensure!(claim.uid() == left.claim, "the database has another volume");
    let major = claim.annotations().get(MAJOR).map(String::as_str);
    ensure!(
        major == Some("17"),
        "the database's claim has the major version {major:?}, not 17"
    );
    the_broker_has_no_administrator(stack).await
}

/// The user of 0.1.0 was one, and the only user.
async fn the_broker_has_no_administrator(stack: &Stack) -> Result<()> {
    let programs = Broker::open(stack).await?;
    let users = programs.send(Method::GET, "/api/users", None).await?;
    ensure!(users.status == 401, "the app may see the users: {users:?}");
    let operator = Broker::open_as_operator(stack).await?;
    operator.ask(Method::GET, "nodes", None).await.map(|_| ())
}

/// Returns a file of the fixture with the names of this run.
fn fixture(space: &Space, file: &str, uid: &str) -> Result<String> {
    let path: PathBuf = checkout("fixtures/0.1.0").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(text
        .replace("@HOST@", &space.host())
        .replace("@UID@", uid)
        .replace("@REGISTRY@", &space.settings.registry_before))
}

/// Makes an object as the operator of 0.1.0 did.
async fn make(space: &Space, object: Value) -> Result<()> {
    let kind = child_kinds()
        .into_iter()
        .find(|kind| object["kind"] == kind.kind)
        .with_context(|| {
            format!(
                "the fixture has an object of an unknown kind: {}",
                object["kind"]
            )
        })?;
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let api = Api::<DynamicObject>::namespaced_with(space.client.clone(), &space.name, &kind);
    let outcome = if kind.kind == "Secret" {
        // Credentials are created and never applied: what an apply once held, the next one without it would remove.
        let parameters = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        api.create(&parameters, &serde_json::from_value(object)?)
            .await
    } else {
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(&name, &parameters, &Patch::Apply(object)).await
    };
    outcome.with_context(|| format!("cannot create {}/{name}", kind.kind))?;
    Ok(())
}

async fn running(stack: &Stack, component: &str) -> Result<()> {
    await_condition(&format!("{component} of 0.1.0 runs"), async || {
        let pods = pods_of(stack, component).await?;
        ensure!(!pods.is_empty(), "{component} has no pod");
        let waiting = pods.iter().filter(|pod| !is_ready(pod)).count();
        ensure!(waiting == 0, "{waiting} pods are not ready");
        Ok(())
    })
    .await
}

async fn scale_workers(space: &Space, replicas: i32) -> Result<()> {
    let workers = Api::<Deployment>::namespaced(space.client.clone(), &space.name);
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    workers
        .patch_scale("demo-worker", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn database_claim(stack: &Stack) -> Result<PersistentVolumeClaim> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(stack.client.clone(), &stack.namespace);
    Ok(claims.get("demo-postgres").await?)
}
