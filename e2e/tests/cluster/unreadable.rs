//! A resource that passes the schema but that the operator cannot parse.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use shortener_e2e::{Provider, Space, Stack, echo_spec, merge};

/// A date with an offset that only the API server accepts, because its check is lax.
const LAX_DATE: &str = "2026-01-01T00:00:00+99:99";

#[tokio::test]
async fn a_resource_that_does_not_parse_says_so_and_holds_up_nobody() -> Result<()> {
    Space::with("unreadable", async |space| {
        space.unused_database().await?;
        let spec = echo_spec(space, Provider::IngressNginx);
        let unreadable = space.stack("unreadable");
        unreadable.apply(&spec).await?;
        foreign_condition(&unreadable, LAX_DATE).await?;
        let degraded = unreadable
            .until_reason("Degraded", "True", "InvalidSpec")
            .await?;
        ensure!(degraded.message.contains("offset"), "{}", degraded.message);

        let mut fine = spec.clone();
        merge(
            &mut fine,
            json!({"gateway": {"hosts": [format!("fine.{}", space.host())]}}),
        );
        let neighbour = space.stack("neighbour");
        neighbour.apply(&fine).await?;
        neighbour.ready().await?;
        unreadable
            .until_reason("Degraded", "True", "InvalidSpec")
            .await?;

        foreign_condition(&unreadable, "2026-01-01T00:00:00Z").await?;
        unreadable.ready().await
    })
    .await
}

/// Adds a condition to the status, as another controller might.
async fn foreign_condition(stack: &Stack, date: &str) -> Result<()> {
    let condition = json!({
        "type": "Foreign", "status": "True", "reason": "Added", "message": "by somebody else",
        "lastTransitionTime": date,
    });
    let patch = json!({
        "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerStack",
        "metadata": {"name": stack.name},
        "status": {"conditions": [condition]},
    });
    let somebody = PatchParams::apply("somebody-else").force();
    stack
        .api
        .patch_status(&stack.name, &somebody, &Patch::Apply(patch))
        .await?;
    Ok(())
}
