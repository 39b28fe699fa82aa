//! The API server accepts every example as a dry run, beside the definitions of its kinds.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use shortener_e2e::{Examples, await_condition};

use crate::{alone, command};

#[tokio::test]
async fn the_api_server_accepts_every_example() -> Result<()> {
    let _alone = alone().await?;
    let mut created = Vec::new();
    let outcome = apply_all(&mut created).await;
    if !created.is_empty() {
        let created = created.join(" ");
        command(
            &format!("kubectl delete --ignore-not-found --wait --timeout=2m {created}"),
            "",
        )
        .await?;
    }
    outcome
}

/// Records what it creates: definitions and namespaces.
async fn apply_all(created: &mut Vec<String>) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("examples-{}", std::process::id()));
    command(
        &format!("checks/examples.sh definitions {}", folder.display()),
        "",
    )
    .await?;
    for file in std::fs::read_dir(&folder)? {
        define(&file?.path(), created).await?;
    }
    std::fs::remove_dir_all(folder)?;

    let examples = Examples::of_checkout()?;
    for file in examples.manifests {
        let text = std::fs::read_to_string(shortener_e2e::checkout("..").join(&file))?;
        accepts(&file, &text, created).await?;
    }
    for overlay in examples.overlays {
        let text = command(&format!("kubectl kustomize ../{overlay}"), "").await?;
        let objects = accepts(&overlay, &text, created).await?;
        let of_kind =
            |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        for secret in of_kind("Secret").map(|secret| secret["metadata"]["name"].to_string()) {
            let named = of_kind("ShortenerStack").any(|stack| stack.to_string().contains(&secret));
            let file = "examples/kustomize/base/secret-references.yaml";
            ensure!(
                named,
                "no stack of {overlay} names the generated Secret {secret}: add its field to {file}"
            );
        }
    }
    Ok(())
}

/// Creates the definition in a file, unless the cluster has it: that of a program that is installed stays as it is.
async fn define(file: &Path, created: &mut Vec<String>) -> Result<()> {
    let file = format!("--filename {}", file.display());
    let known = format!("kubectl get {file} --ignore-not-found --output name");
    if !command(&known, "").await?.is_empty() {
        return Ok(());
    }
    let name = command(&format!("kubectl create {file} --output name"), "").await?;
    created.extend(name.lines().map(str::to_owned));
    // `kubectl wait` fails while a new definition has no conditions.
    let established = format!(
        "kubectl get {file} --output jsonpath={{.status.conditions[?(@.type==\"Established\")].status}}"
    );
    await_condition(&format!("{} is established", name.trim()), async || {
        let status = command(&established, "").await?;
        ensure!(status == "True", "its status is {status:?}");
        Ok(())
    })
    .await
}

/// Applies the documents as a dry run, which creates no namespace for the objects after it, and returns them.
async fn accepts(what: &str, text: &str, created: &mut Vec<String>) -> Result<Vec<Value>> {
    let objects = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    for namespace in objects
        .iter()
        .filter_map(|object| object["metadata"]["namespace"].as_str())
    {
        let name = format!("namespace/{namespace}");
        if command(&format!("kubectl get {name} --ignore-not-found"), "")
            .await?
            .is_empty()
        {
            command(&format!("kubectl create namespace {namespace}"), "").await?;
            created.push(name);
        }
    }
    // A warning becomes an error in a later version.
    let dry = "--dry-run=server --validate=strict --warnings-as-errors";
    let applied = command(
        &format!("kubectl apply --server-side {dry} --filename -"),
        text,
    )
    .await;
    applied.with_context(|| format!("the API server refuses {what}"))?;
    Ok(objects)
}
