//! Backups of the database, their verification, and a restore.

use anyhow::Result;
use serde_json::{Value, json};
use shortener_e2e::{GatewayClient, Provider, Space, Stack, base_spec, kubectl, merge};

/// Runs a CronJob of the stack now.
pub(crate) async fn run_now(stack: &Stack, component: &str) -> Result<()> {
    let create = format!("create job {component}-now --from=cronjob/acme-{component}");
    let wait = format!("wait --for=condition=complete job/{component}-now --timeout=240s");
    for command in [create, wait] {
        kubectl(stack, &command.split(' ').collect::<Vec<_>>()).await?;
    }
    Ok(())
}

fn backed_up() -> Value {
    let verify = json!({"schedule": "@yearly"});
    let backup = json!({"schedule": "@yearly", "volume": {"storage": "1Gi"}, "verify": verify});
    json!({"database": {"backup": backup}})
}

#[tokio::test]
async fn a_backup_is_verified_and_the_next_stack_begins_with_it() -> Result<()> {
    Space::with("backup", async |space| {
        let provider = Provider::IngressNginx;
        let (stack, gateway) = space.serve(provider, backed_up()).await?;
        stack
            .until_reason("BackupReady", "False", "NeverRun")
            .await?;
        let mut links = Vec::new();
        for number in 0..20 {
            let url = format!("https://example.com/saved/{number}");
            links.push((gateway.shorten(&url).await?, url));
        }
        run_now(&stack, "backup").await?;
        stack
            .until_reason("BackupReady", "True", "Complete")
            .await?;
        run_now(&stack, "verify").await?;
        stack
            .until_reason("BackupVerified", "True", "Verified")
            .await?;

        stack.delete().await?;
        let gone = ["delete", "pvc", "acme-postgres", "--ignore-not-found"];
        kubectl(&stack, &gone).await?;
        let mut spec = base_spec(space, provider);
        merge(&mut spec, backed_up());
        let from = json!({"claimName": "acme-backup"});
        merge(&mut spec, json!({"database": {"restoreFrom": from}}));
        stack.apply(&spec).await?;
        stack.ready().await?;
        let gateway = GatewayClient::open(space, &stack, provider, &space.host()).await?;
        for (code, url) in &links {
            gateway.assert_redirects(code, url).await?;
        }
        Ok(())
    })
    .await
}
