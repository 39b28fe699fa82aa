//! Long-lived stacks that tests share: for each gateway provider one of the real app and one that echoes, which are only
//! read, and one for each profile whose store counts, which one test at a time has for itself.

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::DeleteParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::{
    Door, Prometheus, SINK_ENDPOINT, Space, Stack, base_spec, echo_spec, merge, settled,
    spec::small,
};

/// Namespaces of the stacks with profiles.
const CACHED: &str = "e2e-shared-caching";
const QUEUED: &str = "e2e-shared-queue";
const VECTORS: &str = "e2e-shared-vector";
const OBSERVED: &str = "e2e-shared-observed";

/// How a stack is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The cluster's ingress-nginx controller.
    IngressNginx,
    /// The stack's own nginx.
    Standalone,
}

impl Provider {
    /// The value of `spec.gateway.provider`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IngressNginx => "IngressNginx",
            Self::Standalone => "Standalone",
        }
    }

    fn namespace(self) -> &'static str {
        match self {
            Self::IngressNginx => "e2e-shared-ingress-nginx",
            Self::Standalone => "e2e-shared-standalone",
        }
    }
}

/// A ready stack of a shared namespace, and the way in.
pub struct SharedStack {
    /// The namespace.
    pub space: Space,
    /// The stack; do not change it.
    pub stack: Stack,
    /// Its public address.
    pub door: Door,
}

/// The shared stack of the real app, `acme`, with two pods of the app.
pub async fn real_stack(provider: Provider) -> Result<SharedStack> {
    static READY: [OnceCell<()>; 2] = [const { OnceCell::const_new() }; 2];
    let space = Space::shared(provider.namespace()).await?;
    let mut spec = base_spec(&space, provider);
    merge(&mut spec, json!({"app": {"replicas": 2}}));
    shared(&READY[provider as usize], space, "acme", spec, provider).await
}

/// The shared stack that echoes, `mirror`, in the same namespace as the real one.
pub async fn echo_stack(provider: Provider) -> Result<SharedStack> {
    static READY: [OnceCell<()>; 2] = [const { OnceCell::const_new() }; 2];
    let space = Space::shared(provider.namespace()).await?;
    let mut spec = echo_spec(&space, provider);
    merge(
        &mut spec,
        json!({"gateway": {"host": format!("mirror.{}", space.host())}}),
    );
    space.unused_database().await?;
    shared(&READY[provider as usize], space, "mirror", spec, provider).await
}

/// The shared stack with the profile `caching`, for one test at a time: what it counts is what that test did.
pub async fn cached_stack() -> Result<(SharedStack, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::const_new(());
    let guard = ONE.lock().await;
    // What a test counts must not depend on how busy the machine is, so the app waits for its cache.
    let patient = json!([{"name": "CACHE_TIMEOUT_SECONDS", "value": "5"}]);
    let changes = json!({
        "profiles": ["caching"],
        "cache": {"managed": {"resources": small()}},
        "app": {"env": patient},
    });
    Ok((profiled(CACHED, changes).await?, guard))
}

/// The shared stack with the profile `queue`, for one test at a time.
pub async fn queued_stack() -> Result<(SharedStack, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::const_new(());
    let guard = ONE.lock().await;
    let queue = json!({"managed": {"storage": "512Mi"}});
    let changes = json!({"profiles": ["queue"], "queue": queue, "workers": {"replicas": 1}});
    Ok((profiled(QUEUED, changes).await?, guard))
}

/// Runs a test on the stack with a queue, which it has for itself.
pub async fn with_queue(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    let (shared, _alone) = queued_stack().await?;
    shared.space.check(async |_| test(&shared).await).await
}

/// The shared stack with the profile `vector`, for one test at a time.
pub async fn vector_stack() -> Result<(SharedStack, MutexGuard<'static, ()>)> {
    vectors(json!(["vector"])).await
}

/// Runs a test on the stack with a vector store, which it has for itself. Documents are indexed before the answer.
pub async fn with_vector(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    let (shared, _alone) = vector_stack().await?;
    shared.space.check(async |_| test(&shared).await).await
}

/// The same with the profile `queue` on that stack: workers index the documents.
pub async fn with_vector_and_queue(
    test: impl AsyncFnOnce(&SharedStack) -> Result<()>,
) -> Result<()> {
    let (shared, _alone) = vectors(json!(["queue", "vector"])).await?;
    shared.space.check(async |_| test(&shared).await).await
}

async fn vectors(profiles: Value) -> Result<(SharedStack, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::const_new(());
    let guard = ONE.lock().await;
    let changes = json!({
        "profiles": profiles,
        "vector": {"managed": {"resources": small()}},
        "queue": {"managed": {"storage": "512Mi"}},
        "workers": {"replicas": 1},
    });
    Ok((profiled(VECTORS, changes).await?, guard))
}

/// The shared stack with every profile, for one test at a time. What its collector takes goes to a sink in its namespace.
pub async fn observed_stack() -> Result<(SharedStack, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::const_new(());
    let guard = ONE.lock().await;
    Ok((profiled(OBSERVED, every_profile()).await?, guard))
}

/// Gives up the stacks with profiles: with nothing to do they take half of two cores from a test that measures.
pub async fn give_up_profiled_stacks(client: &Client) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [CACHED, QUEUED, VECTORS, OBSERVED] {
        if namespaces.get_opt(name).await?.is_some() {
            namespaces.delete(name, &DeleteParams::background()).await?;
        }
    }
    Ok(())
}

/// What makes the base spec that of the stack with every profile.
#[must_use]
pub fn every_profile() -> Value {
    json!({
        "profiles": ["caching", "queue", "observability", "vector"],
        "cache": {"managed": {"resources": small()}},
        "queue": {"managed": {"storage": "512Mi"}},
        "workers": {"replicas": 1},
        "vector": {"managed": {"resources": small()}},
        "observability": {
            "collector": {"managed": {"resources": small()}},
            "backend": {"external": {"endpoint": SINK_ENDPOINT}},
            "scrapeFrom": [Prometheus::peer()],
        },
    })
}

/// Whatever an earlier test left, the stack is as described when this returns, and no pod of what it was answers.
async fn profiled(namespace: &str, changes: Value) -> Result<SharedStack> {
    let space = Space::shared(namespace).await?;
    let mut changes = changes;
    merge(&mut changes, json!({"paused": false, "stopped": false}));
    let (stack, door) = space.serve(Provider::IngressNginx, changes).await?;
    settled(&stack).await?;
    Ok(SharedStack { space, stack, door })
}

async fn shared(
    ready: &OnceCell<()>,
    space: Space,
    name: &str,
    spec: Value,
    provider: Provider,
) -> Result<SharedStack> {
    let stack = space.stack(name);
    // Every test has a runtime and a client of its own; what they share is only that the stack is up.
    ready
        .get_or_try_init(async || {
            stack.apply(&spec).await?;
            stack.ready().await
        })
        .await?;
    let host = spec.pointer("/gateway/host").and_then(|host| host.as_str());
    let door = Door::open(&space, &stack, provider, host.unwrap_or_default()).await?;
    Ok(SharedStack { space, stack, door })
}
