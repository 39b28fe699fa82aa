//! The database, managed and external.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use shortener_e2e::{
    GatewayClient, PATIENCE, Provider, Space, Stack, await_condition, base_spec, children_of,
    is_ready, merge, restricted_container, restricted_pod,
};

/// Specification: 2.1.
#[tokio::test]
async fn deleting_the_pod_of_the_database_loses_no_acknowledged_link() -> Result<()> {
    Space::with("database-pod", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        let mut links = vec![];
        for number in 0..20 {
            let url = format!("https://example.com/before/{number}");
            links.push((gateway.shorten(&url).await?, url));
        }
        let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
        let old = pods.get("acme-postgres-0").await?.uid();
        pods.delete("acme-postgres-0", &DeleteParams::default())
            .await?;
        let outage =
            shorten_until_a_new_pod_serves(&stack, &gateway, &pods, old, &mut links).await?;
        println!(
            "the database was down for {:.1} s, {} links created",
            outage.as_secs_f32(),
            links.len()
        );
        stack.ready().await?;
        for (code, url) in &links {
            gateway.assert_redirects(code, url).await?;
        }
        Ok(())
    })
    .await
}

/// Shortens links without a pause, records the accepted ones, and checks that the status
/// reports the outage of the database.
async fn shorten_until_a_new_pod_serves(
    stack: &Stack,
    gateway: &GatewayClient,
    pods: &Api<Pod>,
    old: Option<String>,
    links: &mut Vec<(String, String)>,
) -> Result<Duration> {
    let begin = std::time::Instant::now();
    let mut told = false;
    let mut refused = None;
    while begin.elapsed() < PATIENCE {
        let url = format!("https://example.com/during/{}", links.len());
        let answer = gateway.post("/api/shorten", &json!({"url": url})).await?;
        match answer.status {
            201 => {
                let code = answer.json()?["code"].as_str().map(str::to_owned);
                links.push((code.context("the answer has no code")?, url));
                let new = pods.get_opt("acme-postgres-0").await?;
                if new.is_some_and(|pod| pod.uid() != old) && refused.is_some() {
                    ensure!(told, "DatabaseReady was never False during the outage");
                    return Ok(begin.elapsed());
                }
            }
            503 => {
                answer.check_unavailable()?;
                refused = Some(());
            }
            _ => bail!("expected status 201 or 503, got {answer:?}"),
        }
        told |= stack.current("DatabaseReady", "False").await.is_ok();
    }
    bail!(
        "the app created no link through the new database within {} s",
        PATIENCE.as_secs()
    )
}

#[tokio::test]
async fn an_external_database_is_named_by_a_secret() -> Result<()> {
    Space::with("external-database", async |space| {
        let stack = space.stack("acme");
        let mut spec = base_spec(space, Provider::IngressNginx);
        merge(
            &mut spec,
            json!({"database": {"managed": null, "external": {"secretRef": {"name": "my-database", "key": "dsn"}}}}),
        );
        stack.apply(&spec).await?;
        let missing = stack.until_reason("Degraded", "True", "SecretNotFound").await?;
        ensure!(missing.message.contains("my-database"), "{}", missing.message);

        foreign_postgres(space).await?;
        let with_password = |password: &str| {
            let url = format!("postgres://people:{password}@my-postgres:5432/links");
            json!({"dsn": url})
        };
        space.secret("my-database", &with_password("wrong")).await?;
        let refused = stack.until_reason("DatabaseReady", "False", "LoginRefused").await?;
        ensure!(refused.message.contains("Secret my-database"), "{}", refused.message);
        space.secret("my-database", &with_password("s3%25cr%40t%2F")).await?;
        stack.ready().await?;
        for child in children_of(&stack).await? {
            let title = child.title();
            ensure!(!title.contains("postgres"), "{title} of a managed database exists");
        }
        let gateway = GatewayClient::open(space, &stack, Provider::IngressNginx, &space.host()).await?;
        let code = gateway.shorten("https://example.com/external").await?;
        gateway.assert_redirects(&code, "https://example.com/external").await?;

        // The form in which CloudNativePG writes it.
        let parts = json!({
            "host": "my-postgres", "port": "5432", "dbname": "links", "username": "people", "password": PASSWORD,
        });
        space.secret("links-app", &parts).await?;
        let reference = json!({"name": "links-app", "key": null});
        stack
            .edit(json!({"database": {"external": {"secretRef": reference}}}))
            .await?;
        stack.until_reason("Progressing", "False", "Settled").await?;
        stack.ready().await?;
        let code = gateway.shorten("https://example.com/parts").await?;
        gateway.assert_redirects(&code, "https://example.com/parts").await
    })
    .await
}

/// A password with characters that a URL must encode.
const PASSWORD: &str = "s3%cr@t/";

/// Starts a PostgreSQL server outside the stack.
async fn foreign_postgres(space: &Space) -> Result<()> {
    let container = restricted_container(
        &space.settings.postgres_image,
        json!({
            "env": [
                {"name": "POSTGRES_USER", "value": "people"},
                {"name": "POSTGRES_PASSWORD", "value": PASSWORD},
                {"name": "POSTGRES_DB", "value": "links"},
                {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
            ],
            "readinessProbe": {
                "exec": {"command": ["pg_isready", "-h", "127.0.0.1", "-U", "people", "-d", "links"]},
                "periodSeconds": 1,
            },
            "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
        }),
    );
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let pod = restricted_pod(
        "my-postgres",
        &json!({"app": "my-postgres"}),
        container,
        volumes,
    )?;
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    pods.create(&PostParams::default(), &pod).await?;
    let service = serde_json::from_value(json!({
        "metadata": {"name": "my-postgres"},
        "spec": {"selector": {"app": "my-postgres"}, "ports": [{"port": 5432}]},
    }))?;
    Api::<Service>::namespaced(space.client.clone(), &space.name)
        .create(&PostParams::default(), &service)
        .await?;
    await_condition("the foreign database is ready", async || {
        ensure!(
            is_ready(&pods.get("my-postgres").await?),
            "pod my-postgres is not ready"
        );
        Ok(())
    })
    .await
}
