//! The namespace of a test.

use std::{any::Any, panic::AssertUnwindSafe, time::Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Door, Provider, Settings, Stack, await_condition, base_spec, dump, merge};

/// Tests that use the cluster at the same time: more of them only wait for two cores.
const AT_ONCE: usize = 3;

/// A namespace that enforces the restricted Pod Security Standard.
#[derive(Clone)]
pub struct Space {
    /// Client of the cluster.
    pub client: Client,
    /// Settings of the run.
    pub settings: Settings,
    /// Name of the namespace.
    pub name: String,
}

impl Space {
    /// Runs a test in a namespace of its own, which is deleted afterwards without waiting for the end of it.
    pub async fn with(theme: &str, test: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
        let client = Client::try_default().await?;
        let settings = Settings::from_env()?;
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": {"generateName": format!("e2e-{theme}-"), "labels": namespace_labels()}
        }))?;
        let created = Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("creating the test's namespace")?;
        let space = Self {
            client,
            settings,
            name: created.name_any(),
        };
        let outcome = space.check(test).await;
        if outcome.is_ok() || !space.settings.keep_failed {
            Api::<Namespace>::all(space.client.clone())
                .delete(&space.name, &DeleteParams::background())
                .await?;
        }
        outcome
    }

    /// A namespace that several tests share. It stays until the cluster goes, so a second run finds it warm.
    pub async fn shared(name: &str) -> Result<Self> {
        let client = Client::try_default().await?;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": namespace_labels()},
        });
        Api::<Namespace>::all(client.clone())
            .patch(
                name,
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(namespace),
            )
            .await?;
        Ok(Self {
            client,
            settings: Settings::from_env()?,
            name: name.to_owned(),
        })
    }

    /// Runs a test in its turn, prints how long it took, and dumps the namespace when it fails or panics.
    pub async fn check(&self, test: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
        let _turn = turn().await?;
        let begin = Instant::now();
        let outcome = match AssertUnwindSafe(test(self)).catch_unwind().await {
            Ok(result) => result,
            Err(panic) => Err(anyhow!("{}", panic_message(panic.as_ref()))),
        };
        println!("{} s in {}", begin.elapsed().as_secs(), self.name);
        if outcome.is_err() {
            eprintln!("{}", dump::namespace(&self.client, &self.name).await);
        }
        outcome
    }

    /// The stack of the given name in this namespace, whether it exists or not.
    pub fn stack(&self, name: &str) -> Stack {
        Stack::new(&self.client, &self.name, name)
    }

    /// Brings up the stack `acme` of the real app, the base spec with `changes` laid over it, and opens its gateway.
    pub async fn serve(
        &self,
        provider: Provider,
        changes: serde_json::Value,
    ) -> Result<(Stack, Door)> {
        let mut spec = base_spec(self, provider);
        merge(&mut spec, changes);
        let stack = self.stack("acme");
        stack.apply(&spec).await?;
        stack.ready().await?;
        let door = Door::open(self, &stack, provider, &self.host()).await?;
        // A stack is ready to follow links before its app has found the broker.
        if spec["profiles"].to_string().contains("queue") {
            await_condition("the app has found its broker", async || {
                let up = door.count("queue_up").await?;
                ensure!(up == 1, "queue_up {up}");
                Ok(())
            })
            .await?;
        }
        Ok((stack, door))
    }

    /// Makes the Secret of a database that nobody asks, for stacks that echo.
    pub async fn unused_database(&self) -> Result<()> {
        let url = "postgres://nobody:nothing@unused.invalid:5432/nothing";
        self.secret("unused-database", &json!({"url": url})).await
    }

    /// Makes a Secret, or makes an existing one this.
    pub async fn secret(&self, name: &str, data: &serde_json::Value) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
        });
        Api::<Secret>::namespaced(self.client.clone(), &self.name)
            .patch(
                name,
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(secret),
            )
            .await?;
        Ok(())
    }

    /// The host name that belongs to this namespace alone.
    pub fn host(&self) -> String {
        format!("{}.test", self.name)
    }
}

/// Waits for a place among those that use the cluster now. Whoever waits for a stack that another test has takes none, so
/// there may be many more threads than places; nobody may wait for a stack while it has a place.
pub(crate) async fn turn() -> Result<SemaphorePermit<'static>> {
    static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);
    Ok(PLACES.acquire().await?)
}

fn namespace_labels() -> serde_json::Value {
    json!({
        "shortener.dev/e2e": "true",
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panicked without a message")
        .to_owned()
}
