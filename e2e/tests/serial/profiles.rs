//! Profiles switched on and off on a stack that serves.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    LoadReport, Provider, Space, Stack, await_condition, children_of, follow_links,
};

use crate::alone;

#[tokio::test]
async fn switching_the_cache_on_and_off_fails_no_redirect() -> Result<()> {
    switching_fails_nothing("caching", "acme-cache").await
}

#[tokio::test]
async fn switching_the_queue_on_and_off_fails_no_redirect() -> Result<()> {
    switching_fails_nothing("queue", "acme-rabbitmq").await
}

async fn switching_fails_nothing(profile: &str, server: &str) -> Result<()> {
    let _alone = alone().await?;
    Space::with(profile, async |space| {
        let changes = json!({
            "app": {"replicas": 2, "resources": null},
            "gateway": {"replicas": 2, "resources": null},
            "database": {"managed": {"resources": null}},
        });
        let (stack, door) = space.serve(Provider::IngressNginx, changes).await?;
        for (profiles, exists) in [(json!([profile]), true), (json!([]), false)] {
            let report = follow_links(&door, switched(&stack, profiles, server, exists)).await?;
            shown(profile, exists, &report);
            ensure!(report.failed == 0, "{report:#?}");
        }
        Ok(())
    })
    .await
}

/// Switches and waits until everything that follows from it has happened.
async fn switched(stack: &Stack, profiles: Value, server: &str, exists: bool) -> Result<()> {
    stack.edit(json!({"profiles": profiles})).await?;
    await_condition(&format!("{server} exists: {exists}"), async || {
        let children = children_of(stack).await?;
        let found = children
            .iter()
            .any(|child| child.kind.kind == "StatefulSet" && child.name == server);
        ensure!(found == exists, "{found}");
        // No profile is no list.
        let status = &stack.get().await?.data["status"]["profiles"];
        let told = status.as_array().cloned().unwrap_or_default();
        ensure!(json!(told) == profiles, "status: {status}");
        stack.current("Ready", "True").await?;
        stack.current("Progressing", "False").await.map(|_| ())
    })
    .await
}

fn shown(profile: &str, on: bool, report: &LoadReport) {
    println!(
        "{profile} switched {}: of {} redirects {} failed; slowest {} ms",
        if on { "on" } else { "off" },
        report.due,
        report.failed,
        report.slowest.as_millis(),
    );
    for failure in &report.failures {
        println!("   {failure}");
    }
}
