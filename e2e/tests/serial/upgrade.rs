//! An upgrade after which the operator renders the same objects restarts no pod (F13), and a database stays on the major
//! version that made its volume.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use shortener_e2e::{Provider, Release, Space, Stack, await_condition, base_spec, merge, settled};
use shortener_operator_core::model::metadata::DATA_VERSION;

use crate::alone;

#[tokio::test]
async fn an_upgrade_that_renders_the_same_objects_restarts_no_pod() -> Result<()> {
    let _alone = alone().await?;
    Space::with("upgrade", async |space| {
        let stack = space.stack("demo");
        let mut spec = base_spec(space, Provider::IngressNginx);
        let database = json!({"managed": {"image": space.settings.postgres_17_image}});
        merge(
            &mut spec,
            json!({"profiles": ["caching", "queue"], "database": database}),
        );
        stack.apply(&spec).await?;
        settled(&stack).await?;
        let before = pods(&stack).await?;
        ensure!(before.len() >= 6, "only the pods {before:?}");
        stack
            .edit(json!({"database": {"managed": {"image": null}}}))
            .await?;
        let release = Release::installed().await?;
        let upgraded = release.upgrade_with("logLevel=debug").await;
        let repaired = match upgraded {
            Ok(()) => repairs_drift(&stack).await,
            Err(error) => Err(error),
        };
        // The next tests need the operator as it was, whatever becomes of this one.
        release.put_back().await?;
        repaired?;
        settled(&stack).await?;
        let after = pods(&stack).await?;
        ensure!(after == before, "{before:?} became {after:?}");
        the_database_stays_on_17(space, &stack).await
    })
    .await
}

/// Waits for a repair, which shows that the new operator has looked at the stack.
async fn repairs_drift(stack: &Stack) -> Result<()> {
    let config_maps = Api::<ConfigMap>::namespaced(stack.client.clone(), &stack.namespace);
    config_maps
        .delete("demo-gateway", &DeleteParams::default())
        .await?;
    await_condition("the new operator repairs drift", async || {
        config_maps.get("demo-gateway").await?;
        Ok(())
    })
    .await?;
    settled(stack).await
}

/// Returns the names of the stack's pods, with their uids.
async fn pods(stack: &Stack) -> Result<BTreeMap<String, Option<String>>> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let its = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", stack.name));
    let pods = pods.list(&its).await?.items.into_iter();
    Ok(pods.map(|pod| (pod.name_any(), pod.uid())).collect())
}

/// Checks a database whose spec names no image any more. The default of a new volume is 18.
async fn the_database_stays_on_17(space: &Space, stack: &Stack) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(stack.client.clone(), &stack.namespace);
    let pod = sets.get("demo-postgres").await?.spec;
    let pod = pod.and_then(|spec| spec.template.spec);
    let image = pod.and_then(|pod| pod.containers.into_iter().next()?.image);
    let image = image.context("demo-postgres has no image")?;
    ensure!(image == space.settings.postgres_17_image, "it runs {image}");
    let claims = Api::<PersistentVolumeClaim>::namespaced(stack.client.clone(), &stack.namespace);
    let claim = claims.get("demo-postgres").await?;
    let major = claim.annotations().get(DATA_VERSION).map(String::as_str);
    ensure!(major == Some("17"), "its claim has the version {major:?}");
    Ok(())
}
