//! The state that reconciles share: the client, settings and everything that the process keeps between reconciles.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::{
    Client, Resource,
    core::DeserializeGuard,
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::{Mutex, RwLock};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{defaults::Defaults, metadata::StackIdentity},
};
use tokio::sync::Semaphore;

use crate::{
    backends::Backends,
    kubernetes::{events::EventRecorder, inventory::Inventory, ledger::Ledger},
    rabbitmq::queues::Queues,
    reconcile::trigger::TriggerLog,
    server::metrics::Metrics,
    telemetry::span::Tracer,
};

/// A stack resource that may fail to parse.
pub type GuardedStack = DeserializeGuard<ShortenerStack>;

/// The state that all reconciles of the process share.
pub struct Context {
    /// Client for the API server; its writes are fenced by the leader's deadline.
    pub client: Client,
    /// Settings that stacks are resolved with.
    pub defaults: Defaults,
    /// The operator's own metrics.
    pub metrics: Metrics,
    /// Record of the last write to each child.
    pub ledger: Ledger,
    /// Publisher of Events on stacks.
    pub recorder: EventRecorder,
    /// Permits that limit concurrent reconciles over all scopes.
    pub permits: Semaphore,
    /// Stacks of all scopes, for finding conflicts between them.
    pub stacks: RwLock<Vec<Store<GuardedStack>>>,
    /// Last known state of the stacks' queues, which the monitor of the brokers updates.
    pub queues: Arc<Queues>,
    /// Known faults of the stacks' external stores, which the monitor of the stores updates.
    pub backends: Arc<Backends>,
    /// Factory of the traces of reconciles.
    pub tracer: Tracer,
    /// Causes of the reconciles that are due, for their traces.
    pub triggers: TriggerLog,
    failures: Mutex<HashMap<ObjectRef<GuardedStack>, u32>>,
}

/// A scope of reconciles: one namespace, or the whole cluster.
pub struct Scope {
    /// State that all scopes share.
    pub context: Arc<Context>,
    /// Reflectors of the children in this scope.
    pub inventory: Inventory,
}

impl Context {
    /// Creates a context without any remembered state, for at most `concurrent` reconciles at the same time.
    pub fn new(client: Client, defaults: Defaults, concurrent: usize, metrics: Metrics) -> Self {
        Self {
            recorder: EventRecorder::new(client.clone()),
            permits: Semaphore::new(concurrent),
            client,
            defaults,
            metrics,
            ledger: Ledger::default(),
            stacks: RwLock::default(),
            queues: Arc::default(),
            backends: Arc::default(),
            tracer: Tracer::default(),
            triggers: TriggerLog::default(),
            failures: Mutex::default(),
        }
    }

    /// Adds the tracer of the process. Without it, no reconcile is traced.
    #[must_use]
    pub fn traced_by(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    /// Returns every stack that parses, of all scopes.
    pub fn known_stacks(&self) -> Vec<ShortenerStack> {
        let stores = self.stacks.read();
        stores
            .iter()
            .flat_map(Store::state)
            .filter_map(|stack| stack.0.as_ref().ok().cloned())
            .collect()
    }

    /// Returns true when the stack was deleted, or its deletion has begun, since its reconcile read it.
    pub fn is_deleted(&self, identity: &StackIdentity) -> bool {
        let key = ObjectRef::new(&identity.name).within(&identity.namespace);
        let stores = self.stacks.read();
        !stores
            .iter()
            .filter_map(|store| store.get(&key))
            .any(|stack| {
                let metadata = stack.meta();
                metadata.uid.as_ref() == Some(&identity.owner.uid)
                    && metadata.deletion_timestamp.is_none()
            })
    }

    /// Resets the failures of a stack.
    pub fn succeeded(&self, stack: &ObjectRef<GuardedStack>) {
        self.failures.lock().remove(stack);
    }

    /// Counts a failure of a stack and returns the backoff: 1 s, doubled with each failure up to 5 minutes,
    /// with ±20 % jitter.
    pub fn failed(&self, stack: &ObjectRef<GuardedStack>) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(stack.clone()).or_default();
        *count = count.saturating_add(1);
        let seconds = 2_f64
            .powi(i32::try_from(*count - 1).unwrap_or(i32::MAX).min(16))
            .min(300.0);
        Duration::from_secs_f64(seconds * rand::random_range(0.8..1.2))
    }
}
