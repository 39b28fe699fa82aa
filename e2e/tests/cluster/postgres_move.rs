//! PostgreSQL from 17 to 18 by the steps of docs/upgrading.md, as they are printed.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    Provider, Space, Stack, Writer, await_condition, checkout, kubectl, kubectl_with_input, paste,
    psql, restricted_container, restricted_pod,
};

/// Returns the commands of the page after a text.
fn commands(after: &str) -> Result<String> {
    let page = fs::read_to_string(checkout("../docs/upgrading.md"))?;
    let section = page.split_once("## PostgreSQL from 17 to 18");
    let from = section.and_then(|(_, section)| section.split_once(after));
    let block = from.and_then(|(_, rest)| rest.split_once("```sh\n")?.1.split_once("```"));
    let (block, _) = block.with_context(|| format!("the page has no commands after {after}"))?;
    Ok(block.to_owned())
}

/// Runs the commands of the page after a text.
async fn step(stack: &Stack, after: &str) -> Result<String> {
    paste(stack, &commands(after)?).await
}

/// Cuts the dump of the newest backup.
async fn cut(space: &Space, stack: &Stack) -> Result<()> {
    let script =
        r#"cd /backup; newest=$(ls -d 2*Z | tail -n 1); truncate --size=-100 "$newest/links.dump""#;
    let container = restricted_container(
        &space.settings.postgres_image,
        json!({
            "command": ["sh", "-ec", script],
            "volumeMounts": [{"name": "backup", "mountPath": "/backup"}],
        }),
    );
    let volumes =
        json!([{"name": "backup", "persistentVolumeClaim": {"claimName": "acme-backup"}}]);
    let pod = restricted_pod("cut", &json!({}), container, volumes)?;
    let pod = serde_json::to_string(&pod)?;
    kubectl_with_input(stack, &["apply", "--filename", "-"], &pod).await?;
    let succeeded = "--for=jsonpath={.status.phase}=Succeeded";
    kubectl(stack, &["wait", "pod/cut", succeeded, "--timeout=120s"]).await?;
    kubectl(stack, &["delete", "pod", "cut"]).await.map(drop)
}

/// Waits until the server has this major version. It restarts once more without the volume of the backups.
async fn runs(stack: &Stack, major: &str) -> Result<()> {
    await_condition("the server has the major version", async || {
        let version = psql(stack, "show server_version_num").await?;
        ensure!(version.starts_with(major), "{version}");
        Ok(())
    })
    .await
}

fn spec(space: &Space) -> Value {
    let backup = json!({"schedule": "@yearly", "volume": {"storage": "1Gi"}, "verify": {"schedule": "@yearly"}});
    let managed = json!({"image": space.settings.postgres_17_image});
    json!({"database": {"managed": managed, "backup": backup}})
}

#[tokio::test]
async fn the_steps_of_the_page_lose_no_acknowledged_link() -> Result<()> {
    Space::with("postgres-move", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec(space)).await?;
        let writer = Writer::start(&gateway);
        step(&stack, "**Step 1**").await?;
        step(&stack, "**Step 2**").await?;
        cut(space, &stack).await?;
        stack
            .edit(json!({"database": {"managed": {"image": null}}}))
            .await?;
        let back = way_back(&stack).await?;
        // The step waits for a database that never serves, here not as long as a reader.
        let short = commands("**Step 3**")?.replace("=15m", "=30s");
        let stopped = paste(&stack, &short).await;
        ensure!(stopped.is_err(), "{stopped:?}");
        await_condition("the cut file is named", async || {
            let database = stack.current("DatabaseReady", "False").await?;
            ensure!(database.message.contains("SHA-256"), "{database:?}");
            Ok(())
        })
        .await?;
        step(&stack, "**Step 1**").await?;
        let image = json!({"image": space.settings.postgres_17_image});
        stack.edit(json!({"database": {"managed": image}})).await?;
        let printed = paste(&stack, &format!("{back}\n{}", commands("**To go back**")?)).await?;
        // The new volume is kept too.
        ensure!(
            printed.matches("persistentvolume/").count() == 2,
            "{printed}"
        );
        runs(&stack, "17").await?;

        step(&stack, "**Step 1**").await?;
        step(&stack, "**Step 2**").await?;
        stack
            .edit(json!({"database": {"managed": {"image": null}}}))
            .await?;
        let printed = step(&stack, "**Step 3**").await?;
        ensure!(
            printed.contains(&format!("to go back: {back}\n")),
            "{printed}"
        );
        stack.ready().await?;
        runs(&stack, "18").await?;
        let links = writer.stop().await?;
        println!("{} links were acknowledged", links.len());
        // The database restarts once more without the volume of the backups.
        for (code, url) in &links {
            gateway.wait_until_redirects(code, url).await?;
        }
        Ok(())
    })
    .await
}

/// Returns the settings with which the page goes back to the present volume.
async fn way_back(stack: &Stack) -> Result<String> {
    let path = "--output=jsonpath=volume={.spec.volumeName} major=17 \
        size={.spec.resources.requests.storage} class={.spec.storageClassName}";
    kubectl(stack, &["get", "pvc", "acme-postgres", path]).await
}
