//! The namespace of a test.

use std::{any::Any, panic::AssertUnwindSafe, time::Instant};

use anyhow::{Context, Result, anyhow};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::harness::{Settings, Stack, cluster_client, dump};

/// Number of tests that use the cluster at the same time; on two cores, more would only wait for each other.
const MAX_PARALLEL_TESTS: usize = 3;

/// A namespace that enforces the restricted Pod Security Standard.
#[derive(Clone)]
pub struct Space {
    pub client: Client,
    pub settings: Settings,
    /// Name of the namespace.
    pub name: String,
}

impl Space {
    /// Runs a test in a namespace of its own, and deletes the namespace afterwards without
    /// waiting for the end of the deletion.
    pub async fn with(theme: &str, test: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
        let client = cluster_client().await?;
        let settings = Settings::from_env()?;
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": {"generateName": format!("e2e-{theme}-"), "labels": namespace_labels()}
        }))?;
        let created = Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("cannot create the test's namespace")?;
        let space = Self {
            client,
            settings,
            name: created.name_any(),
        };
        let outcome = space.check(test).await;
        if outcome.is_err() && space.settings.keep_failed {
            return outcome;
        }
        let deleted = delete_namespace(&space.client, &space.name).await;
        // The error of the test says more than the one of the deletion.
        outcome.and(deleted)
    }

    /// Returns a namespace that several tests share. It stays as long as the cluster, so a
    /// second run finds its stacks ready.
    pub async fn shared(name: &str) -> Result<Self> {
        let client = cluster_client().await?;
        let settings = Settings::from_env()?;
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
            settings,
            name: name.to_owned(),
        })
    }

    /// Runs a test once a slot is free, prints its duration, and dumps the namespace when it fails or panics.
    pub async fn check(&self, test: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
        let _slot = acquire_slot().await?;
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

    /// Returns the stack of the given name in this namespace, even if it does not exist.
    pub fn stack(&self, name: &str) -> Stack {
        Stack::new(&self.client, &self.name, name)
    }

    /// Creates or updates a Secret.
    pub async fn secret(&self, name: &str, data: &serde_json::Value) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": data,
            "metadata": {"name": name, "labels": {"shortener.dev/usable-by-stacks": "true"}},
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

    /// Returns the host name of this namespace.
    pub fn host(&self) -> String {
        format!("{}.test", self.name)
    }
}

/// Deletes a namespace without waiting for the end of the deletion. Its pods get one second to end instead of up to 75,
/// because later tests wait for them. The namespace goes first: nothing can be created in it from then on.
pub(crate) async fn delete_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    match namespaces.delete(name, &DeleteParams::background()).await {
        // The test has deleted it itself.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => return Ok(()),
        outcome => outcome.map(|_| ())?,
    }
    let at_once = DeleteParams::background().grace_period(1);
    Api::<Pod>::namespaced(client.clone(), name)
        .delete_collection(&at_once, &ListParams::default())
        .await?;
    Ok(())
}

/// Acquires one of the slots for tests that use the cluster. A test that waits for a reserved stack must hold no
/// slot, or the tests could deadlock; so there may be many more threads than slots.
pub(crate) async fn acquire_slot() -> Result<SemaphorePermit<'static>> {
    static SLOTS: Semaphore = Semaphore::const_new(MAX_PARALLEL_TESTS);
    Ok(SLOTS.acquire().await?)
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
        .unwrap_or("the test panicked without a message")
        .to_owned()
}
