//! Long-lived stacks that tests share. For each gateway provider there is one stack of the real app and one of the
//! stand-in app; tests only read them. For each profile there is one stack, reserved for one test at a time (that
//! of `observability` has every profile).

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::DeleteParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::{
    GatewayClient, Prometheus, SINK_ENDPOINT, Space, Stack, base_spec, echo_spec, merge, settled,
    space::acquire_slot, spec::small,
};

static CACHED: Profiled = Profiled::new("e2e-shared-caching");
static QUEUED: Profiled = Profiled::new("e2e-shared-queue");
static VECTORS: Profiled = Profiled::new("e2e-shared-vector");
static OBSERVED: Profiled = Profiled::new("e2e-shared-observed");

/// The reservation of a stack with profiles for one test.
pub type Reservation = MutexGuard<'static, bool>;

/// A stack with profiles, reserved for one test at a time.
struct Profiled {
    namespace: &'static str,
    /// True once it failed to come up: further tests fail at once instead of waiting as long for the same.
    failed_to_start: Mutex<bool>,
}

impl Profiled {
    const fn new(namespace: &'static str) -> Self {
        Self {
            namespace,
            failed_to_start: Mutex::const_new(false),
        }
    }

    /// Reserves the stack, after the test that has it. Whatever that test left, the stack then has the described
    /// spec, and no pod of its earlier state answers.
    async fn take(&'static self, changes: Value) -> Result<(SharedStack, Reservation)> {
        let mut failed_to_start = self.failed_to_start.lock().await;
        ensure!(
            !*failed_to_start,
            "the stack in namespace {} did not become ready in an earlier test: read that test's error",
            self.namespace
        );
        let stack = self.make(changes).await;
        *failed_to_start = stack.is_err();
        Ok((stack?, failed_to_start))
    }

    /// Runs a test on the stack, which is reserved for it meanwhile.
    async fn lend(
        &'static self,
        changes: Value,
        test: impl AsyncFnOnce(&SharedStack) -> Result<()>,
    ) -> Result<()> {
        let (shared, _reservation) = self.take(changes).await?;
        shared.space.check(async |_| test(&shared).await).await
    }

    async fn make(&self, mut changes: Value) -> Result<SharedStack> {
        merge(&mut changes, json!({"paused": false, "stopped": false}));
        let space = Space::shared(self.namespace).await?;
        let _slot = acquire_slot().await?;
        let (stack, gateway) = space.serve(Provider::IngressNginx, changes).await?;
        settled(&stack).await?;
        Ok(SharedStack {
            space,
            stack,
            gateway,
        })
    }
}

/// A gateway provider.
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

/// A ready stack of a shared namespace, and a client of its gateway.
pub struct SharedStack {
    /// The namespace.
    pub space: Space,
    /// The stack; do not change it.
    pub stack: Stack,
    /// The client of its gateway.
    pub gateway: GatewayClient,
}

/// Returns the shared stack of the real app, `acme`, with two pods of the app.
pub async fn real_stack(provider: Provider) -> Result<SharedStack> {
    static READY: [OnceCell<()>; 2] = [const { OnceCell::const_new() }; 2];
    let space = Space::shared(provider.namespace()).await?;
    let mut spec = base_spec(&space, provider);
    merge(&mut spec, json!({"app": {"replicas": 2}}));
    shared(&READY[provider as usize], space, "acme", spec, provider).await
}

/// Returns the shared stack of the stand-in app, `mirror`, in the same namespace as the real one.
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

/// Runs a test on the reserved stack with a cache: the counters change only by the requests of this test.
pub async fn with_cache(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    // The counts of a test must not depend on the load of the machine, so the app waits longer for its cache.
    let patient = json!([{"name": "CACHE_TIMEOUT_SECONDS", "value": "5"}]);
    let changes = json!({
        "profiles": ["caching"],
        // The copies in the app's memory do not change any behavior that the specification describes.
        "cache": {"nearMemory": "8Mi"},
        "app": {"env": patient},
    });
    CACHED.lend(changes, test).await
}

/// Runs a test on the reserved stack with a queue.
pub async fn with_queue(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    let changes = json!({"profiles": ["queue"], "workers": {"replicas": 1}});
    QUEUED.lend(changes, test).await
}

/// Runs a test on the reserved stack with a vector store. Documents are indexed before the answer.
pub async fn with_vector(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    VECTORS.lend(vector_changes(&["vector"]), test).await
}

/// Runs a test on the same stack with the profile `queue` as well: workers index the documents.
pub async fn with_vector_and_queue(
    test: impl AsyncFnOnce(&SharedStack) -> Result<()>,
) -> Result<()> {
    VECTORS
        .lend(vector_changes(&["queue", "vector"]), test)
        .await
}

fn vector_changes(profiles: &[&str]) -> Value {
    json!({"profiles": profiles, "workers": {"replicas": 1}})
}

/// Runs a test on the reserved stack with every profile.
pub async fn with_every_profile(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    OBSERVED.lend(every_profile(), test).await
}

/// Reserves the shared stack with every profile. Its collector exports to a sink in its namespace.
pub async fn observed_stack() -> Result<(SharedStack, Reservation)> {
    OBSERVED.take(every_profile()).await
}

/// Deletes the stacks with profiles: even idle they take half of two cores from a test that measures.
pub async fn give_up_profiled_stacks(client: &Client) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    for stack in [&CACHED, &QUEUED, &VECTORS, &OBSERVED] {
        let name = stack.namespace;
        if namespaces.get_opt(name).await?.is_some() {
            namespaces.delete(name, &DeleteParams::background()).await?;
        }
    }
    Ok(())
}

/// Returns the changes that turn the base spec into that of the stack with every profile.
#[must_use]
pub fn every_profile() -> Value {
    json!({
        "profiles": ["caching", "queue", "observability", "vector"],
        "workers": {"replicas": 1},
        "observability": {
            "collector": {"managed": {"resources": small()}},
            "backend": {"external": {"endpoint": SINK_ENDPOINT}},
            "scrapeFrom": [Prometheus::peer()],
        },
    })
}

async fn shared(
    ready: &OnceCell<()>,
    space: Space,
    name: &str,
    spec: Value,
    provider: Provider,
) -> Result<SharedStack> {
    let stack = space.stack(name);
    // Every test has a runtime and a client of its own; the tests share only the fact that the stack is ready.
    ready
        .get_or_try_init(async || {
            let _slot = acquire_slot().await?;
            stack.apply(&spec).await?;
            stack.ready().await
        })
        .await?;
    let host = spec.pointer("/gateway/host").and_then(|host| host.as_str());
    let gateway = GatewayClient::open(&space, &stack, provider, host.unwrap_or_default()).await?;
    Ok(SharedStack {
        space,
        stack,
        gateway,
    })
}
