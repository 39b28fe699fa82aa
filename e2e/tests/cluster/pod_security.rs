//! The security settings of a stack's pods. These namespaces admit only pods that pass the restricted standard.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Container, Namespace, PodSpec};
use kube::{Api, ResourceExt};
use shortener_e2e::{Provider, SharedStack, observed_stack, pods_of, real_stack};

#[tokio::test]
async fn the_namespaces_of_the_tests_enforce_the_restricted_standard() -> Result<()> {
    let shared = real_stack(Provider::IngressNginx).await?;
    let namespaces = Api::<Namespace>::all(shared.space.client.clone());
    let namespace = namespaces.get(&shared.space.name).await?;
    let labels = namespace.labels();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    Ok(())
}

#[tokio::test]
async fn no_pod_of_a_stack_holds_a_service_account_token() -> Result<()> {
    each_pod(|name, pod| {
        let mounted = pod.volumes.iter().flatten().any(|volume| {
            let sources = volume
                .projected
                .iter()
                .filter_map(|projected| projected.sources.as_ref());
            sources
                .flatten()
                .any(|source| source.service_account_token.is_some())
        });
        ensure!(!mounted, "{name} mounts a token");
        ensure!(
            pod.automount_service_account_token == Some(false),
            "{name} does not switch off the ServiceAccount token"
        );
        let account = pod.service_account_name.as_deref();
        ensure!(
            account.is_some_and(|account| account != "default"),
            "{name} has the ServiceAccount {account:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_container_is_bounded_and_has_a_read_only_root() -> Result<()> {
    each_pod(|name, pod| {
        for container in containers(pod) {
            let title = format!("container {} of {name}", container.name);
            let security = container.security_context.as_ref();
            let read_only = security.and_then(|security| security.read_only_root_filesystem);
            ensure!(
                read_only == Some(true),
                "{title} can write to its root file system"
            );
            let resources = container.resources.as_ref();
            let resources = resources.with_context(|| format!("{title} has no resources"))?;
            for bounds in [&resources.requests, &resources.limits] {
                let bounds = bounds
                    .as_ref()
                    .with_context(|| format!("{title} lacks requests or limits"))?;
                ensure!(
                    bounds.contains_key("memory"),
                    "{title} lacks a request or a limit of memory"
                );
            }
        }
        Ok(())
    })
    .await
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

async fn each_pod(check: impl Fn(&str, &PodSpec) -> Result<()>) -> Result<()> {
    // The stack is reserved, so no other test stops a store, whose pod would then be missing here.
    let (observed, _reservation) = observed_stack().await?;
    let stacks: [(SharedStack, &[&str]); 3] = [
        (real_stack(Provider::IngressNginx).await?, &[]),
        (real_stack(Provider::Standalone).await?, &[]),
        (observed, &["cache", "rabbitmq", "worker", "qdrant", "otel"]),
    ];
    for (shared, more) in stacks {
        for component in ["app", "gateway", "postgres"].iter().chain(more) {
            let pods = pods_of(&shared.stack, component).await?;
            ensure!(!pods.is_empty(), "the {component} has no pod");
            for pod in pods {
                let name = pod.name_any();
                check(&name, &pod.spec.context("a pod has no spec")?)?;
            }
        }
    }
    Ok(())
}
