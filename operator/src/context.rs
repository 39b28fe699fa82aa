//! What reconciles share: connections, settings and what the process remembers between them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError, RwLock},
    time::Duration,
};

use kube::{
    Client,
    core::DeserializeGuard,
    runtime::{
        events::Recorder,
        reflector::{ObjectRef, Store},
    },
};
use tokio::sync::Semaphore;

use crate::{
    api::ShortenerStack,
    broker::transport::{self, Transport},
    inventory::Inventory,
    ledger::Ledger,
    metadata::FIELD_MANAGER,
    metrics::Metrics,
    queues::Queues,
    settings::Settings,
};

/// A stack that may not parse.
pub type GuardedStack = DeserializeGuard<ShortenerStack>;

/// Shared by every reconcile of the process.
pub struct Context {
    /// The client whose mutating requests are fenced by the leader's deadline.
    pub client: Client,
    /// Flags and environment of the operator.
    pub settings: Settings,
    /// The operator's own metrics.
    pub metrics: Metrics,
    /// What was last written.
    pub ledger: Ledger,
    /// Publishes Events on stacks.
    pub recorder: Recorder,
    /// Bounds reconciles over every scope.
    pub permits: Semaphore,
    /// Stacks of every scope, for conflicts between them.
    pub stacks: RwLock<Vec<Store<GuardedStack>>>,
    /// What is known of the stacks' queues.
    pub queues: Queues,
    /// The way to the brokers.
    pub brokers: Transport,
    failures: Mutex<HashMap<ObjectRef<GuardedStack>, u32>>,
}

/// One namespace, or the whole cluster.
pub struct Scope {
    /// What all scopes share.
    pub context: std::sync::Arc<Context>,
    /// Children in this scope.
    pub inventory: Inventory,
}

impl Context {
    /// A context with nothing remembered.
    pub fn new(client: Client, settings: Settings, metrics: Metrics) -> Self {
        Self {
            recorder: Recorder::new(client.clone(), FIELD_MANAGER.into()),
            permits: Semaphore::new(settings.max_concurrent_reconciles),
            client,
            settings,
            metrics,
            ledger: Ledger::default(),
            stacks: RwLock::default(),
            queues: Queues::default(),
            brokers: transport::http(),
            failures: Mutex::default(),
        }
    }

    /// Every stack that parses, of all scopes.
    pub fn known_stacks(&self) -> Vec<ShortenerStack> {
        let stores = self.stacks.read().unwrap_or_else(PoisonError::into_inner);
        stores
            .iter()
            .flat_map(Store::state)
            .filter_map(|stack| stack.0.as_ref().ok().cloned())
            .collect()
    }

    /// Forgets the failures of a stack.
    pub fn succeeded(&self, stack: &ObjectRef<GuardedStack>) {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(stack);
    }

    /// Counts a failure of a stack and tells how long to wait: 1 s doubled each time up to 5 minutes, with ±20 % jitter.
    pub fn failed(&self, stack: &ObjectRef<GuardedStack>) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(stack.clone()).or_default();
        *count = count.saturating_add(1);
        let seconds = 2_f64
            .powi(i32::try_from(*count - 1).unwrap_or(i32::MAX).min(16))
            .min(300.0);
        Duration::from_secs_f64(seconds * rand::random_range(0.8..1.2))
    }
}
