//! The matrix of profiles: each alone and all together, switched on and off on a stack that serves requests.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use serde_json::json;
use shortener_e2e::{
    Caller, GatewayClient, Load, Provider, Sink, Space, Stack, await_condition, children_of,
    every_profile, merge, settled, valkey,
};

use crate::undisturbed;

const ALL: [&str; 4] = ["caching", "queue", "observability", "vector"];

/// The profiles of the stack in each step, starting from none: every profile alone, all of them, and none again.
const STEPS: [&[&str]; 6] = [
    &["caching"],
    &["queue"],
    &["observability"],
    &["vector"],
    &ALL,
    &[],
];

/// The objects that run in every step. A component with two pods or more has a disruption budget.
const BASE: [&str; 5] = [
    "Deployment/acme-app",
    "Deployment/acme-gateway",
    "PodDisruptionBudget/acme-app",
    "PodDisruptionBudget/acme-gateway",
    "StatefulSet/acme-postgres",
];

/// The objects that outlive a profile that is switched off.
const KEPT: [&str; 5] = [
    "PersistentVolumeClaim/acme-qdrant",
    "PersistentVolumeClaim/acme-rabbitmq",
    "Secret/acme-cache",
    "Secret/acme-qdrant",
    "Secret/acme-rabbitmq",
];

#[tokio::test]
async fn each_profile_alone_and_all_of_them_work_and_switching_them_fails_no_redirect() -> Result<()>
{
    let _alone = undisturbed().await?;
    Space::with("profiles", async |space| {
        let sink = Sink::start(space).await?;
        let mut changes = every_profile();
        merge(
            &mut changes,
            json!({
                "profiles": [],
                "app": {"replicas": 2, "resources": null},
                "gateway": {"replicas": 2, "resources": null},
                "workers": {"replicas": 2},
                "database": {"managed": {"resources": null}},
                "deletionPolicy": "Retain",
            }),
        );
        let (stack, gateway) = space.serve(Provider::IngressNginx, changes).await?;
        let code = gateway.shorten("https://example.com/switched").await?;
        let load = Load::of_redirects(&gateway, &code).await?;
        for profiles in STEPS {
            let title = format!("switch to {profiles:?}");
            load.fails_nothing(&title, step(profiles, &stack, &gateway, &sink))
                .await?;
        }
        deletion_policy_deletes_the_data(&stack).await
    })
    .await
}

/// Sets the profiles and checks each of them. It returns after the last old pod is gone, so the
/// load covers the whole rollout.
async fn step(
    profiles: &[&str],
    stack: &Stack,
    gateway: &GatewayClient,
    sink: &Sink,
) -> Result<()> {
    let begin = Instant::now();
    switched(stack, profiles).await?;
    println!("{profiles:?} ready after {} s", begin.elapsed().as_secs());
    for profile in ALL {
        if profiles.contains(&profile) {
            works(profile, stack, gateway, sink).await?;
        } else {
            is_off(profile, gateway).await?;
        }
    }
    Ok(())
}

/// Sets the profiles and waits until all their effects are complete.
async fn switched(stack: &Stack, profiles: &[&str]) -> Result<()> {
    stack.edit(json!({"profiles": profiles})).await?;
    let mut expected = BASE.to_vec();
    for profile in profiles {
        expected.extend(workloads(profile)?);
    }
    expected.sort_unstable();
    await_condition(&format!("{expected:?} run"), async || {
        let mut running = Vec::new();
        for child in children_of(stack).await? {
            if ["apps", "policy"].contains(&child.kind.group.as_str()) {
                running.push(child.title());
            }
        }
        running.sort_unstable();
        ensure!(running == expected, "{running:?}");
        // A status without profiles has no list.
        let status = &stack.get().await?.data["status"]["profiles"];
        let told = status.as_array().cloned().unwrap_or_default();
        ensure!(
            json!(told) == json!(profiles),
            "expected {profiles:?} in the status, got {status}"
        );
        Ok(())
    })
    .await?;
    settled(stack).await?;
    await_condition("a drain may take one pod of each budget", async || {
        for child in children_of(stack).await? {
            if child.kind.group == "policy" {
                let allowed = &child.seen.data["status"]["disruptionsAllowed"];
                ensure!(
                    *allowed == 1,
                    "{} allows {allowed} disruptions",
                    child.title()
                );
            }
        }
        Ok(())
    })
    .await
}

fn workloads(profile: &str) -> Result<&'static [&'static str]> {
    Ok(match profile {
        "caching" => &["StatefulSet/acme-cache"],
        "queue" => &[
            "Deployment/acme-worker",
            "PodDisruptionBudget/acme-worker",
            "StatefulSet/acme-rabbitmq",
        ],
        "observability" => &["Deployment/acme-otel"],
        "vector" => &["StatefulSet/acme-qdrant"],
        _ => bail!("there is no profile {profile}"),
    })
}

/// Waits until a request shows that the profile works: the app connects to its servers a moment after they are ready.
async fn works(profile: &str, stack: &Stack, gateway: &GatewayClient, sink: &Sink) -> Result<()> {
    let url = format!("https://example.com/with/{profile}");
    await_condition(&format!("{profile} works"), async || match profile {
        "caching" => {
            let code = gateway.shorten(&url).await?;
            let copy = valkey(stack, &["get", &format!("link:{code}")]).await?;
            ensure!(copy == url, "expected {url:?} in the cache, got {copy:?}");
            Ok(())
        }
        "queue" => {
            let job = gateway.enqueue(&json!({"task": "email", "id": 1})).await?;
            gateway
                .wait_for_job_status(&job.id, "done")
                .await
                .map(|_| ())
        }
        "observability" => {
            let (code, caller) = (gateway.shorten(&url).await?, Caller::new());
            gateway.get_traced(&format!("/{code}"), &caller).await?;
            let spans = sink.trace_with(&caller.trace_id, &["GET /{code}"]).await?;
            let parent = &spans.span("GET /{code}")?.parent_span_id;
            ensure!(*parent == caller.span_id, "{spans:?}");
            Ok(())
        }
        _ => {
            let payload = json!({"category": "matrix"});
            let put = gateway.put_document(1, &[1., 0., 0., 0.], payload).await?;
            ensure!([200, 201, 202].contains(&put.status), "{put:?}");
            let query = json!({"vector": [2, 0, 0, 0], "filter": {"category": "matrix"}});
            let found = gateway.find_documents(&query).await?;
            let found = found.first().context("the query found no document")?;
            ensure!(found.id == 1, "{found:?}");
            Ok(())
        }
    })
    .await
}

/// Checks that the routes of a profile that is off answer 501; the other two profiles have no routes.
async fn is_off(profile: &str, gateway: &GatewayClient) -> Result<()> {
    let request = match profile {
        "queue" => gateway.post("/api/jobs", &json!({"task": "email"})).await?,
        "vector" => {
            let query = json!({"vector": [1, 0, 0, 0]});
            gateway.post("/api/docs/query", &query).await?
        }
        _ => return Ok(()),
    };
    ensure!(
        request.status == 501,
        "{profile} is off: expected status 501, got {request:?}"
    );
    Ok(())
}

/// Checks that the data of the profiles, which are all off, is kept, and that an edit of `deletionPolicy` deletes it.
async fn deletion_policy_deletes_the_data(stack: &Stack) -> Result<()> {
    let kept = kept(stack).await?;
    ensure!(kept == KEPT, "expected {KEPT:?} to be kept, found {kept:?}");
    stack.edit(json!({"deletionPolicy": "Delete"})).await?;
    await_condition("the data of the profiles is gone", async || {
        let left = self::kept(stack).await?;
        ensure!(left.is_empty(), "{left:?} is left");
        Ok(())
    })
    .await
}

async fn kept(stack: &Stack) -> Result<Vec<String>> {
    let mut kept = Vec::new();
    for child in children_of(stack).await? {
        let data = ["PersistentVolumeClaim", "Secret"].contains(&child.kind.kind.as_str());
        let base = [
            "acme-checksum",
            "acme-job-ids",
            "acme-management",
            "acme-postgres",
        ];
        let base = base.contains(&child.seen.name_any().as_str());
        if data && !base {
            kept.push(child.title());
        }
    }
    kept.sort_unstable();
    Ok(kept)
}
