//! Deleted or edited children are restored; additions of other field managers stay.

mod children;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use shortener_e2e::{
    Child, GatewayClient, Provider, Space, Stack, await_condition, await_within, base_spec,
    children_of, merge, stopped_with_every_profile,
};

use self::children::{EVERY_CHILD, OF_THE_PROFILES};
use crate::{alone, undisturbed};

/// The promised time of a repair, and the time limit on a machine with two busy cores.
const PROMISED: Duration = Duration::from_secs(2);
const AT_WORST: Duration = Duration::from_secs(15);
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const COMPONENT: &str = "app.kubernetes.io/component";

#[tokio::test]
async fn every_child_that_is_deleted_or_edited_is_put_back() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("drift", async |space| {
        let stack = space.stack("acme");
        let mut spec = base_spec(space, Provider::IngressNginx);
        merge(
            &mut spec,
            json!({"app": {"replicas": 2}, "gateway": {"replicas": 2}}),
        );
        stack.apply(&spec).await?;
        stack.ready().await?;
        let gateway =
            GatewayClient::open(space, &stack, Provider::IngressNginx, &space.host()).await?;
        let code = gateway.shorten("https://example.com/drift").await?;

        let children = children_of(&stack).await?;
        let titles: Vec<String> = children.iter().map(Child::title).collect();
        assert_eq!(titles, EVERY_CHILD);
        let mut times = Vec::new();
        for child in &children {
            disturb(&stack, child, &mut times).await?;
        }
        report(&mut times)?;
        stack.ready().await?;
        gateway
            .wait_until_redirects(&code, "https://example.com/drift")
            .await
    })
    .await
}

#[tokio::test]
async fn every_child_of_every_profile_is_put_back_too() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("drift-profiles", async |space| {
        let stack = stopped(space).await?;
        let children = await_condition("every profile has its children", async || {
            let mut children = children_of(&stack).await?;
            children.retain(|child| !EVERY_CHILD.contains(&child.title().as_str()));
            let titles: Vec<String> = children.iter().map(Child::title).collect();
            ensure!(titles == OF_THE_PROFILES, "{titles:?}");
            Ok(children)
        })
        .await?;
        let mut times = Vec::new();
        for child in &children {
            disturb(&stack, child, &mut times).await?;
        }
        report(&mut times)
    })
    .await
}

async fn stopped(space: &Space) -> Result<Stack> {
    let stack = space.stack("acme");
    let mut spec = stopped_with_every_profile(space);
    let receiver =
        json!({"name": "crm", "url": "https://hooks.example.com", "secretRef": {"name": "crm"}});
    merge(&mut spec, json!({"links": {"webhooks": [receiver]}}));
    stack.apply(&spec).await?;
    stack.until("Ready", "False").await?;
    Ok(stack)
}

#[tokio::test]
async fn what_somebody_else_adds_to_a_child_is_left_alone() -> Result<()> {
    let _alone = alone().await?;
    Space::with("foreign-fields", async |space| {
        let stack = stopped(space).await?;
        let children = children_of(&stack).await?;
        ensure!(children.len() > 50, "only {} children", children.len());
        for child in &children {
            let added = json!({"example.com/added": "elsewhere"});
            edit(
                child,
                json!({"metadata": {"annotations": added, "labels": added}}),
            )
            .await?;
            let edited = json!({"metadata": {"labels": {COMPONENT: "edited"}}});
            edit(child, edited).await?;
            restored(child, "/metadata/labels", |labels| {
                labels[COMPONENT] != "edited"
            })
            .await?;
            let now = child.api.get(&child.name).await?;
            for kept in [now.annotations(), now.labels()] {
                let kept = kept.get("example.com/added").map(String::as_str);
                ensure!(
                    kept == Some("elsewhere"),
                    "{} lost the label or the annotation of another field manager",
                    child.title()
                );
            }
        }
        Ok(())
    })
    .await
}

type Times = Vec<(Duration, String)>;

/// Deletes the child, removes a label and edits the child; waits after each step until the child is restored.
async fn disturb(stack: &Stack, child: &Child, times: &mut Times) -> Result<()> {
    let title = child.title();
    let others = uids_of_others(stack, &title).await?;
    if !holds_data(child) {
        child
            .api
            .delete(&child.name, &DeleteParams::background())
            .await?;
        let time = came_back(child).await?;
        times.push((time, format!("{title} deleted")));
    }
    let before = child.api.get(&child.name).await?;
    let unlabelled = json!({"metadata": {"labels": {MANAGED_BY: null}}});
    edit(child, unlabelled).await?;
    let time = restored(child, "/metadata/labels", |labels| {
        *labels == value(&before, "/metadata/labels")
    });
    times.push((time.await?, format!("{title} unlabelled")));
    if let Some((pointer, patch)) = harmful_edit(child)? {
        let right = value(&before, pointer);
        edit(child, patch).await?;
        let time = restored(child, pointer, |now| *now == right).await?;
        times.push((time, format!("{title} edited at {pointer}")));
    }
    assert_eq!(
        uids_of_others(stack, &title).await?,
        others,
        "other children were replaced while {title} was repaired"
    );
    Ok(())
}

/// Returns true for volume claims and for Secrets of stores with a volume: neither is ever recreated.
fn holds_data(child: &Child) -> bool {
    let without = [
        "acme-cache",
        "acme-checksum",
        "acme-job-ids",
        "acme-management",
    ]
    .contains(&child.name.as_str());
    child.kind.kind == "PersistentVolumeClaim" || child.kind.kind == "Secret" && !without
}

/// Returns a change of a managed field of this kind, and the JSON pointer to that field; `None` for data and
/// credentials.
fn harmful_edit(child: &Child) -> Result<Option<(&'static str, Value)>> {
    let no_pod = json!({COMPONENT: "no-such-component"});
    let pods = json!({"podSelector": {"matchLabels": no_pod}});
    let budget = json!({"selector": {"matchLabels": no_pod}});
    let stopped = child.seen.data["spec"]["replicas"] == 0;
    let edit = match child.kind.kind.as_str() {
        "PersistentVolumeClaim" | "Secret" => return Ok(None),
        "ServiceAccount" => (
            "/automountServiceAccountToken",
            json!({"automountServiceAccountToken": true}),
        ),
        "ConfigMap" => {
            let files = child.seen.data["data"].as_object();
            let file = files.and_then(|files| files.keys().next());
            let file = file.with_context(|| format!("{} has no file", child.title()))?;
            ("/data", json!({"data": {file.as_str(): "broken"}}))
        }
        "Service" => ("/spec/selector", json!({"spec": {"selector": no_pod}})),
        // This change starts no pod.
        "StatefulSet" | "Deployment" if stopped => (
            "/spec/template/spec/automountServiceAccountToken",
            json!({"spec": {"template": {"spec": {"automountServiceAccountToken": true}}}}),
        ),
        "StatefulSet" => ("/spec/replicas", json!({"spec": {"replicas": 0}})),
        "Deployment" => ("/spec/replicas", json!({"spec": {"replicas": 3}})),
        "Ingress" => (
            "/spec/ingressClassName",
            json!({"spec": {"ingressClassName": "other"}}),
        ),
        "NetworkPolicy" => ("/spec/podSelector", json!({"spec": pods})),
        "HorizontalPodAutoscaler" => ("/spec/maxReplicas", json!({"spec": {"maxReplicas": 9}})),
        "CronJob" => ("/spec/suspend", json!({"spec": {"suspend": true}})),
        "PodDisruptionBudget" => ("/spec/selector", json!({"spec": budget})),
        kind => bail!("this test has no harmful edit of the kind {kind}"),
    };
    Ok(Some(edit))
}

async fn edit(child: &Child, patch: Value) -> Result<()> {
    child
        .api
        .patch(&child.name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| format!("cannot edit {}", child.title()))?;
    Ok(())
}

async fn came_back(child: &Child) -> Result<Duration> {
    let what = format!("{} exists again", child.title());
    let ((), time) = await_within(AT_WORST, &what, async || {
        let now = child.api.get(&child.name).await?;
        ensure!(
            now.metadata.deletion_timestamp.is_none(),
            "the old object is still being deleted"
        );
        Ok(())
    })
    .await?;
    Ok(time)
}

async fn restored(
    child: &Child,
    pointer: &str,
    is_right: impl Fn(&Value) -> bool,
) -> Result<Duration> {
    let what = format!("{} is as before at {pointer}", child.title());
    let ((), time) = await_within(AT_WORST, &what, async || {
        let now = value(&child.api.get(&child.name).await?, pointer);
        ensure!(is_right(&now), "{now}");
        Ok(())
    })
    .await?;
    Ok(time)
}

/// Returns a part of an object; null if it is absent.
fn value(object: &DynamicObject, pointer: &str) -> Value {
    if pointer == "/metadata/labels" {
        return json!(object.labels());
    }
    object.data.pointer(pointer).cloned().unwrap_or_default()
}

async fn uids_of_others(stack: &Stack, except: &str) -> Result<Vec<(String, Option<String>)>> {
    let children = children_of(stack).await?;
    let others = children.iter().filter(|child| child.title() != except);
    Ok(others
        .map(|child| (child.title(), child.seen.uid()))
        .collect())
}

/// Prints the slowest repairs and checks that at most one in twenty is late; on a busy machine a single one may be.
fn report(times: &mut Times) -> Result<()> {
    times.sort();
    for (time, what) in times.iter().rev().take(5) {
        println!("{:6.3} s  {what}", time.as_secs_f32());
    }
    let (median, _) = times
        .get(times.len() / 2)
        .context("no repair was measured")?;
    println!("{:6.3} s  median of {}", median.as_secs_f32(), times.len());
    let late = times.iter().filter(|(time, _)| *time > PROMISED).count();
    println!(
        "{late} took longer than the promised {} s",
        PROMISED.as_secs()
    );
    ensure!(
        late * 20 <= times.len(),
        "{late} of {} repairs were late",
        times.len()
    );
    Ok(())
}
