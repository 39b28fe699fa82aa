//! Refusals of the API server and their messages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use http::Request;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use shortener_e2e::{Provider, Space, Stack, await_condition, base_spec, merge};
use shortener_operator_core::api::ShortLink;

#[tokio::test]
async fn the_sample_of_the_readme_is_short_and_valid() -> Result<()> {
    Space::with("sample", async |space| {
        let text = std::fs::read_to_string(samples().join("demo.yaml"))?;
        ensure!(
            text.lines().count() <= 20,
            "the sample is longer than 20 lines"
        );
        let sample: Value = serde_yaml::from_str(&text)?;
        assert_eq!(sample["metadata"], json!({"name": "demo"}));
        create(space, &sample, "Strict")
            .await
            .context("the API server refuses the sample")?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_empty_spec_is_valid() -> Result<()> {
    Space::with("empty-spec", async |space| {
        create(space, &stack("demo", json!({})), "Strict").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_invalid_resource_is_refused_with_the_field_and_the_remedy() -> Result<()> {
    Space::with("admission", async |space| {
        let mut files: Vec<PathBuf> = std::fs::read_dir(samples().join("invalid"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.sort();
        ensure!(files.len() >= 20, "only {} invalid samples", files.len());
        let mut wrong = Vec::new();
        for file in &files {
            if let Err(error) = refused_as_expected(space, file).await {
                wrong.push(format!("{}: {error:#}", file.display()));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_volume_neither_shrinks_nor_changes_its_class() -> Result<()> {
    Space::with("transition", async |space| {
        let stack = space.stack("acme");
        let mut spec = base_spec(space, Provider::IngressNginx);
        // The rules hold without any running pod.
        merge(&mut spec, json!({"paused": true, "stopped": true}));
        merge(
            &mut spec,
            json!({"database": {"managed": {"storage": "2Gi", "storageClassName": "standard"}}}),
        );
        stack.apply(&spec).await?;
        let shrink = "database.managed.storage cannot shrink";
        let class = "database.managed.storageClassName cannot change";
        for (edit, message) in [
            (json!({"database": {"managed": {"storage": "1Gi"}}}), shrink),
            (json!({"database": {"managed": {"storage": null}}}), shrink),
            (
                json!({"database": {"managed": {"storage": "2047Mi"}}}),
                shrink,
            ),
            (
                json!({"database": {"managed": {"storageClassName": "other"}}}),
                class,
            ),
            (
                json!({"database": {"managed": {"storageClassName": null}}}),
                class,
            ),
            (json!({"database": {"managed": null}}), class),
            (json!({"database": null}), shrink),
        ] {
            edit_is_refused(&stack, edit, message).await?;
        }
        stack
            .edit(json!({"database": {"managed": {"storage": "3Gi"}}}))
            .await
            .context("growing is refused")
    })
    .await
}

/// The storage class of the test cluster lets no volume grow.
#[tokio::test]
async fn a_growth_that_the_storage_class_refuses_can_be_taken_back() -> Result<()> {
    Space::with("growth", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        let url = "https://example.com/kept";
        let code = gateway.shorten(url).await?;
        let size = |size: &str| json!({"database": {"managed": {"storage": size}}});
        await_condition("the status has the size of the volume", async || {
            let volumes = stack.get().await?.data["status"]["volumes"].take();
            let expected = json!({"database": "64Mi"});
            ensure!(volumes == expected, "status.volumes is {volumes}");
            Ok(())
        })
        .await?;
        stack.edit(size("128Mi")).await?;
        let told = stack
            .until_reason("Degraded", "True", "VolumeNotExpandable")
            .await?;
        let remedy = "set the size back to the one in status.volumes";
        ensure!(told.message.contains(remedy), "{}", told.message);
        let field = "spec.database.managed.storage: Invalid value";
        edit_is_refused(&stack, size("63Mi"), field).await?;
        stack
            .edit(size("64Mi"))
            .await
            .context("there is no way back")?;
        stack.until("Degraded", "False").await?;
        stack.ready().await?;
        gateway.assert_redirects(&code, url).await
    })
    .await
}

#[tokio::test]
async fn a_stack_passes_to_another_operator_only_while_it_is_paused() -> Result<()> {
    Space::with("operator-class", async |space| {
        let stack = space.stack("acme");
        let mut spec = base_spec(space, Provider::IngressNginx);
        merge(&mut spec, json!({"stopped": true}));
        stack.apply(&spec).await?;
        for edit in [
            json!({"operatorClass": "canary"}),
            json!({"operatorClass": "canary", "paused": true}),
        ] {
            let message = "operatorClass can change only while the stack is paused";
            edit_is_refused(&stack, edit, message).await?;
        }
        stack.edit(json!({"paused": true})).await?;
        stack
            .edit(json!({"operatorClass": "canary"}))
            .await
            .context("a paused stack cannot pass to another operator")
    })
    .await
}

#[tokio::test]
async fn a_short_link_keeps_its_stack_its_code_and_its_destination() -> Result<()> {
    Space::with("short-link", async |space| {
        let links: Api<ShortLink> = Api::namespaced(space.client.clone(), &space.name);
        let url = "https://example.com/";
        // No stack has that name, so the operator does nothing but say so.
        let spec = json!({"stackRef": {"name": "absent"}, "code": "sale", "url": url});
        let link = ShortLink::new("sale", serde_json::from_value(spec)?);
        let created = links.create(&PostParams::default(), &link).await?;
        assert_eq!(created.spec, link.spec);
        let edit = async |spec: Value| {
            let patch = Patch::Merge(json!({"spec": spec}));
            links.patch("sale", &PatchParams::default(), &patch).await
        };
        for (change, message) in [
            (json!({"stackRef": {"name": "other"}}), "stackRef cannot change"),
            (json!({"stackRef": {"namespace": "other"}}), "stackRef cannot change"),
            (json!({"code": "other"}), "code cannot change"),
            (json!({"url": "https://example.com/other"}), "url cannot change"),
            (json!({"title": "a\nb"}), "spec.title in body should match"),
            (json!({"tags": ["a,b"]}), "spec.tags[0] in body should match"),
        ] {
            let refused = edit(change.clone()).await.err();
            let refused = refused.with_context(|| format!("{change} is accepted"))?;
            ensure!(refused.to_string().contains(message), "{change}: {refused}");
        }
        edit(json!({"title": "Sale", "tags": ["shop"], "enabled": false, "deletionPolicy": "Delete"}))
            .await
            .context("the rest cannot change")?;
        Ok(())
    })
    .await
}

/// Checks that an edit of a stack is refused with this message.
async fn edit_is_refused(stack: &Stack, edit: Value, message: &str) -> Result<()> {
    match stack.edit(edit.clone()).await {
        Ok(()) => bail!("{edit} is accepted"),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(text.contains(message), "{edit}: {text}");
            Ok(())
        }
    }
}

async fn refused_as_expected(space: &Space, file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    let expected: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# refused: "))
        .collect();
    ensure!(!expected.is_empty(), "names no message");
    match create(space, &serde_yaml::from_str(&text)?, "Strict").await {
        Ok(_) => bail!("is accepted"),
        Err(error) => {
            let message = format!("{error:#}");
            for part in expected {
                ensure!(message.contains(part), "expected {part:?}, got: {message}");
            }
            Ok(())
        }
    }
}

/// Sends the request of `kubectl apply` for a new object, as a dry run. `unknown` says what becomes of unknown fields:
/// `Strict` refuses them, as kubectl does, and `Ignore` removes them.
pub(super) async fn create(space: &Space, object: &Value, unknown: &str) -> Result<DynamicObject> {
    let kind = object["kind"].as_str().context("the object has no kind")?;
    let url = format!(
        "/apis/shortener.dev/v1alpha1/namespaces/{}/{}s?dryRun=All&fieldValidation={unknown}",
        space.name,
        kind.to_lowercase()
    );
    let client: &Client = &space.client;
    let request = Request::post(url)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object)?)?;
    Ok(client.request(request).await?)
}

/// Returns a stack as an object.
pub(super) fn stack(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerStack",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}
