//! A resource that the schema lets pass and the operator cannot read.

use anyhow::{Result, ensure};
use serde_json::json;
use shortener_e2e::{Provider, Space, echo_spec, merge};

#[tokio::test]
async fn a_resource_that_does_not_parse_says_so_and_holds_up_nobody() -> Result<()> {
    Space::with("unreadable", async |space| {
        space.unused_database().await?;
        let mut spec = echo_spec(space, Provider::IngressNginx);
        let (unreadable, other) = (space.stack("unreadable"), space.stack("other"));
        // The schema's int32 is advice to the API server, and no 32 bits hold this weight.
        let preference = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
        let preferred = json!([{"weight": 3_000_000_000_u32, "preference": preference}]);
        let affinity = json!({
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        });
        let mut broken = spec.clone();
        merge(&mut broken, json!({"app": {"affinity": affinity}}));
        unreadable.apply(&broken).await?;
        let degraded = unreadable
            .until_reason("Degraded", "True", "InvalidSpec")
            .await?;
        ensure!(
            degraded.message.contains("3000000000"),
            "{}",
            degraded.message
        );

        merge(
            &mut spec,
            json!({"gateway": {"host": format!("other.{}", space.host())}}),
        );
        other.apply(&spec).await?;
        other.ready().await?;
        unreadable.edit(json!({"app": {"affinity": null}})).await?;
        unreadable.ready().await
    })
    .await
}
