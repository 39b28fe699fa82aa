//! References to what does not exist: the rest of the stack is there and serves, the status names the reference, and the
//! part comes up once the reference leads somewhere. The sentences are printed as a table.

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::{scheduling::v1::PriorityClass, storage::v1::StorageClass},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use shortener_e2e::{
    Condition, GatewayClient, KEYS, Provider, Space, Stack, await_condition, base_spec,
    children_of, condition_of, merge,
};

/// No server listens there, so the pull fails at once, with or without internet access.
const NO_IMAGE: &str = "127.0.0.1:1/none:1";
/// Address of a database that is never used.
const DATABASE: &str = "postgres://user:password@unused.invalid:5432/links";

/// A stopped stack with a reference to a Secret that does not exist, or that lacks the entry.
struct Broken {
    /// Name of the stack, and of the Secret.
    name: &'static str,
    /// Condition that names the Secret.
    condition: &'static str,
    /// Changes of the base spec.
    changes: Value,
    /// Entries that the Secret needs.
    remedy: Value,
}

impl Broken {
    /// Describes a store that the operator does not run, whose Secret is missing.
    fn store(
        name: &'static str,
        field: &str,
        profiles: &[&str],
        condition: &'static str,
        url: &str,
    ) -> Self {
        let external = json!({"secretRef": {"name": name}});
        Self {
            name,
            condition,
            changes: json!({"profiles": profiles, field: {"managed": null, "external": external}}),
            remedy: json!({"url": url}),
        }
    }
}

fn references() -> Vec<Broken> {
    let authority = json!({
        "secretRef": {"name": "unused-database"},
        "tls": {"caSecretRef": {"name": "no-authority"}},
    });
    let api_key = json!({
        "secretRef": {"name": "unused-vector"},
        "apiKeySecretRef": {"name": "no-api-key", "key": "key"},
    });
    let headers = json!({
        "endpoint": "https://otlp.test:4317", "headersSecretRef": {"name": "no-headers"},
    });
    let database = |name| Broken::store(name, "database", &[], "DatabaseReady", DATABASE);
    let (cache, vector) = ("redis://unused.invalid:6379", "http://unused.invalid:6334");
    let broker = "amqp://user:password@unused.invalid:5672";
    vec![
        database("no-database"),
        database("no-such-entry"),
        Broken {
            name: "no-authority",
            condition: "DatabaseReady",
            changes: json!({"database": {"managed": null, "external": authority}}),
            remedy: json!({"ca.crt": "-----BEGIN CERTIFICATE-----"}),
        },
        Broken::store("no-cache", "cache", &["caching"], "CacheReady", cache),
        Broken::store("no-queue", "queue", &["queue"], "QueueReady", broker),
        Broken::store("no-vector", "vector", &["vector"], "VectorReady", vector),
        Broken {
            name: "no-api-key",
            condition: "VectorReady",
            changes: json!({
                "profiles": ["vector"], "vector": {"managed": null, "external": api_key},
            }),
            remedy: json!({"key": "an-api-key"}),
        },
        Broken {
            name: "no-headers",
            condition: "TelemetryReady",
            changes: json!({
                "profiles": ["observability"],
                "observability": {"backend": {"external": headers}},
            }),
            remedy: json!({"authorization": "Bearer token"}),
        },
        Broken {
            name: "no-certificate",
            condition: "GatewayReady",
            changes: json!({
                "gateway": {"tls": {"secretName": "no-certificate", "redirect": false}},
            }),
            remedy: json!({"tls.crt": "a certificate", "tls.key": "its key"}),
        },
    ]
}

#[tokio::test]
async fn each_reference_to_a_missing_secret_holds_one_part_until_the_secret_appears() -> Result<()>
{
    Space::with("references", async |space| {
        space.unused_database().await?;
        let vector = json!({"url": "http://unused.invalid:6334"});
        space.secret("unused-vector", &vector).await?;
        space
            .secret("no-such-entry", &json!({"address": DATABASE}))
            .await?;
        let references = references();
        for broken in &references {
            let mut spec = base_spec(space, Provider::IngressNginx);
            let host = format!("{}.{}", broken.name, space.host());
            let own = json!({"publicUrl": format!("http://{host}"), "gateway": {"hosts": [host]}});
            merge(&mut spec, own);
            merge(&mut spec, json!({"stopped": true}));
            merge(&mut spec, broken.changes.clone());
            space.stack(broken.name).apply(&spec).await?;
        }
        println!("| stack | condition | reason | sentence | children |");
        for Broken {
            name, condition, ..
        } in &references
        {
            let stack = space.stack(name);
            let held = told(&stack, condition, name).await?;
            ensure!(held.reason == "SecretNotFound", "{name}: {held:?}");
            let children = children_of(&stack).await?.len();
            println!("{} {children} |", row(name, &held));
            ensure!(children > 10, "{name}: only {children} children");
        }
        for broken in &references {
            space.secret(broken.name, &broken.remedy).await?;
        }
        for broken in &references {
            healed(&space.stack(broken.name), broken.condition).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_stack_serves_while_a_reference_of_every_optional_part_is_broken() -> Result<()> {
    Space::with("broken", async |space| {
        // Classes belong to the cluster, so their names are those of this namespace.
        let absent = space.name.as_str();
        let auth = json!({"secretRef": {"name": "no-keys"}, "protect": ["metrics"]});
        let changes = json!({
            "profiles": ["caching", "observability", "vector"],
            "gateway": {"auth": auth},
            "cache": {"managed": {"image": NO_IMAGE}},
            "observability": {"collector": {"managed": {"podTemplate": {"spec": {"priorityClassName": absent}}}}},
            "vector": {"managed": {"storageClassName": absent}},
        });
        let stack = space.apply_echo(changes).await?;
        println!("| stack | condition | reason | sentence |");
        for (condition, part) in [
            ("AppReady", "no-keys"),
            ("CacheReady", NO_IMAGE),
            ("TelemetryReady", absent),
            ("VectorReady", "acme-qdrant"),
        ] {
            let named = told(&stack, condition, part).await?;
            println!("{}", row("acme", &named));
        }
        println!("{}", row("acme", &stack.until("Ready", "True").await?));
        let provider = Provider::IngressNginx;
        let gateway = GatewayClient::open(space, &stack, provider, &space.host()).await?;
        let answer = gateway.get("/api/health").await?;
        ensure!(answer.status == 200, "{answer:?}");

        space.secret("no-keys", &json!({"every": KEYS[0]})).await?;
        let mended = async {
            classes(space, absent).await?;
            stack
                .edit(json!({"cache": {"managed": {"image": null}}}))
                .await?;
            stack.ready().await?;
            stack.until("Degraded", "False").await
        };
        let mended = mended.await;
        let removed = without_classes(space, absent).await;
        mended.and(removed)
    })
    .await
}

/// Waits until a condition is false and names a part, and returns it.
async fn told(stack: &Stack, condition: &str, part: &str) -> Result<Condition> {
    let what = format!("{condition} of stack {} names {part}", stack.name);
    await_condition(&what, async || {
        let found = stack.current(condition, "False").await?;
        ensure!(found.message.contains(part), "{found:?}");
        Ok(found)
    })
    .await
}

/// Waits until a condition has another reason than a missing Secret, and the stack no fault.
async fn healed(stack: &Stack, condition: &str) -> Result<()> {
    let what = format!("{condition} of stack {} is mended", stack.name);
    await_condition(&what, async || {
        let found = condition_of(&stack.get().await?, condition)?;
        ensure!(found.reason != "SecretNotFound", "{found:?}");
        stack.current("Degraded", "False").await.map(|_| ())
    })
    .await
}

fn row(stack: &str, condition: &Condition) -> String {
    let Condition {
        kind,
        status,
        reason,
        message,
        ..
    } = condition;
    format!("| {stack} | {kind}={status} | {reason} | {message} |")
}

/// Creates the priority class, and the storage class, which is like that of the cluster.
async fn classes(space: &Space, name: &str) -> Result<()> {
    let priority = serde_json::from_value(json!({"metadata": {"name": name}, "value": 0}))?;
    Api::<PriorityClass>::all(space.client.clone())
        .create(&PostParams::default(), &priority)
        .await?;
    let storage = Api::<StorageClass>::all(space.client.clone());
    let known = storage.list(&ListParams::default()).await?.items;
    let known = known.into_iter().next();
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..known.context("the cluster has no storage class")?
    };
    storage.create(&PostParams::default(), &class).await?;
    Ok(())
}

async fn without_classes(space: &Space, name: &str) -> Result<()> {
    let now = DeleteParams::default();
    Api::<PriorityClass>::all(space.client.clone())
        .delete(name, &now)
        .await?;
    Api::<StorageClass>::all(space.client.clone())
        .delete(name, &now)
        .await?;
    Ok(())
}
