//! The removal of expired data.

use anyhow::{Result, ensure};
use serde_json::json;
use shortener_e2e::{Provider, Space, kubectl, psql};

#[tokio::test]
async fn a_job_of_the_cron_job_leaves_tombstones_of_expired_links() -> Result<()> {
    Space::with("purge", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        gateway.shorten("https://example.com/expired").await?;
        psql(&stack, "UPDATE links SET expires_at = now()").await?;

        let create = "create job purge-now --from=cronjob/acme-purge";
        let wait = "wait --for=condition=complete job/purge-now --timeout=120s";
        for command in [create, wait] {
            kubectl(&stack, &command.split(' ').collect::<Vec<_>>()).await?;
        }
        let left = "SELECT count(*) FROM links WHERE url IS NOT NULL";
        let left = psql(&stack, left).await?;
        ensure!(left.trim() == "0", "{left} links have their destination");
        Ok(())
    })
    .await
}
