//! The kinds of the Prometheus operator, which a cluster may lack at first and get later.

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::core::v1::Service,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use shortener_e2e::{Space, Stack, await_condition, monitoring_kinds};

use crate::alone;

#[tokio::test]
async fn a_cluster_that_gets_the_kinds_of_the_prometheus_operator_gets_their_objects() -> Result<()>
{
    let _alone = alone().await?;
    Space::with("monitored", async |space| {
        let kinds = monitoring_kinds();
        // An earlier run on the same cluster may have left the kinds.
        for kind in &kinds {
            undefine(space, kind).await?;
        }
        let changes = json!({"profiles": ["observability"]});
        let stack = space.apply_echo(changes).await?;
        stack.ready().await?;
        // The kinds stay in the cluster, so later tests show that they change nothing else.
        for kind in &kinds {
            define(space, kind).await?;
        }
        for kind in &kinds {
            exists(&stack, kind, true).await?;
        }
        let services = read_services(&stack).await?;
        assert_eq!(services, ["acme-app-metrics", "acme-otel"]);

        let monitors = monitors(&stack)?;
        let old = monitors.get("acme").await?.uid();
        monitors.delete("acme", &DeleteParams::default()).await?;
        await_condition("the ServiceMonitor exists again", async || {
            let new = monitors.get("acme").await?.uid();
            ensure!(new != old, "the old ServiceMonitor still exists");
            Ok(())
        })
        .await?;

        stack.edit(json!({"profiles": []})).await?;
        for kind in &kinds {
            exists(&stack, kind, false).await?;
        }
        stack.ready().await
    })
    .await
}

/// Removes a kind from the cluster, if it exists.
async fn undefine(space: &Space, kind: &ApiResource) -> Result<()> {
    let name = format!("{}.{}", kind.plural, kind.group);
    let definitions = Api::<CustomResourceDefinition>::all(space.client.clone());
    if definitions.get_opt(&name).await?.is_some() {
        definitions.delete(&name, &DeleteParams::default()).await?;
    }
    await_condition(&format!("there is no kind {}", kind.kind), async || {
        let left = definitions.get_opt(&name).await?;
        ensure!(left.is_none(), "its definition still exists");
        Ok(())
    })
    .await
}

/// Adds a kind to the cluster, with the smallest possible schema.
async fn define(space: &Space, kind: &ApiResource) -> Result<()> {
    let ApiResource {
        group,
        version,
        kind,
        plural,
        ..
    } = kind;
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let name = format!("{plural}.{group}");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"),
                "plural": plural, "singular": kind.to_lowercase(),
            },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    });
    Api::<CustomResourceDefinition>::all(space.client.clone())
        .patch(
            &name,
            &PatchParams::apply("e2e").force(),
            &Patch::Apply(definition),
        )
        .await?;
    Ok(())
}

/// Waits until the stack has an object of this kind, or none. The operator checks for new kinds once a minute.
async fn exists(stack: &Stack, kind: &ApiResource, expected: bool) -> Result<()> {
    let what = format!("{} acme exists: {expected}", kind.kind);
    await_condition(&what, async || {
        let found = api(stack, kind);
        let found = found.get_opt("acme").await?.is_some();
        ensure!(found == expected, "{found}");
        Ok(())
    })
    .await
}

fn api(stack: &Stack, kind: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(stack.client.clone(), &stack.namespace, kind)
}

fn monitors(stack: &Stack) -> Result<Api<DynamicObject>> {
    let mut kinds = monitoring_kinds().into_iter();
    let kind = kinds.find(|kind| kind.kind == "ServiceMonitor");
    Ok(api(stack, &kind.context("there is no such kind")?))
}

/// Returns the names of the Services that the stack's ServiceMonitor selects.
async fn read_services(stack: &Stack) -> Result<Vec<String>> {
    let monitor = monitors(stack)?.get("acme").await?.data["spec"].take();
    let labels = monitor["selector"]["matchLabels"].as_object().cloned();
    let labels = labels.unwrap_or_default().into_iter().map(|(name, value)| {
        let value = value.as_str().map(str::to_owned).unwrap_or_default();
        format!("{name}={value}")
    });
    let selector = labels.collect::<Vec<_>>().join(",");
    ensure!(
        !selector.is_empty(),
        "the ServiceMonitor has an empty selector: {monitor}"
    );
    let has_port = |service: &Service| {
        let ports = service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        let mut names = ports.map(|port| Value::from(port.name.clone()));
        names.any(|name| name == monitor["endpoints"][0]["port"])
    };
    let services = Api::<Service>::namespaced(stack.client.clone(), &stack.namespace);
    let services = services
        .list(&ListParams::default().labels(&selector))
        .await?;
    let services = services.items.into_iter().filter(has_port);
    Ok(services.map(|service| service.name_any()).collect())
}
