//! The state that reconciles share: the client, settings and everything that the process keeps between reconciles.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use kube::{
    Client, Resource,
    runtime::{
        events::Recorder,
        reflector::{ObjectRef, Store},
    },
};
use parking_lot::{Mutex, RwLock};
use shortener_operator_core::{
    model::{
        defaults::Defaults,
        kinds::Deletion,
        metadata::{Component, FIELD_MANAGER, StackIdentity, StackKey, component_name},
        ownership::is_ours,
        stack::EndToEndTarget,
    },
    plan::conditions::Attempts,
};
use tokio::{sync::Semaphore, time::Instant};

pub use super::guarded::GuardedStack;
use super::specs::Specs;
use crate::{
    kubernetes::{
        drills::Drills,
        entry_points::EntryPoints,
        hosts::Hosts,
        inventory::{Child, Inventory, is_listed},
    },
    probes::{Probes, stores::Backends},
    rabbitmq::queues::Queues,
    reconcile::apply::Writes,
    registry::Registry,
    server::{health::Health, metrics::Metrics},
    telemetry::span::Tracer,
};

/// Time for which failures that often pass are tried again before the status calls them faults.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longest time until a failed reconcile is retried, without the jitter.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A function that returns the time now.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// The failures of a stack since its last success.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    first: Instant,
}

/// The state that all reconciles of the process share.
pub struct Context {
    /// Client for the API server; its writes are fenced by the leader's deadline.
    pub client: Client,
    /// Settings that stacks are resolved with.
    pub defaults: Defaults,
    pub metrics: Metrics,
    /// Health of the watches, for the probe of readiness.
    pub health: Health,
    /// The last write to each child.
    pub writes: Writes,
    /// Publisher of Events on stacks.
    pub recorder: Recorder,
    /// Permits that limit concurrent reconciles over all scopes.
    pub permits: Semaphore,
    /// Class of the stacks that this operator reconciles; empty for those without one.
    pub class: String,
    /// Stacks of all classes for each scope: a namespace, or the whole cluster.
    pub stacks: RwLock<Vec<(Option<String>, Store<GuardedStack>)>>,
    /// The specs that stacks were last reconciled with.
    pub specs: Specs,
    /// Claims of the stacks of all scopes on hosts.
    pub hosts: Hosts,
    /// Last known state of the stacks' queues, which the monitor of the brokers updates.
    pub queues: Arc<Queues>,
    /// Known faults of the stacks' stores.
    pub backends: Arc<Backends>,
    /// Connections that the stacks' NetworkPolicies forbid.
    pub sole_entry: Arc<Probes<Attempts>>,
    /// End-to-end probes through the stacks' gateways.
    pub end_to_end: Arc<Probes<EndToEndTarget>>,
    /// The pod through which the links of a stack are managed. Listeners are told of each stack that was reconciled or is gone.
    pub managers: Arc<Registry<SocketAddr>>,
    /// Drills of all scopes.
    pub drills: Arc<Drills>,
    /// Returns the time now.
    pub clock: Clock,
    /// Factory of the traces of reconciles.
    pub tracer: Tracer,
    failures: Mutex<HashMap<ObjectRef<GuardedStack>, Failures>>,
}

/// A scope of reconciles: one namespace, or the whole cluster.
pub struct Scope {
    /// State that all scopes share.
    pub context: Arc<Context>,
    /// Reflectors of the children in this scope.
    pub inventory: Inventory,
    /// Objects of others in this scope that let connections from outside in.
    pub entry_points: Arc<EntryPoints>,
    /// Stacks of all classes in this scope.
    pub stacks: Store<GuardedStack>,
}

impl Scope {
    /// Returns the watched object of a component.
    pub fn child<K: Child>(
        &self,
        identity: &StackIdentity,
        component: Component,
    ) -> Option<Arc<K::Kept>> {
        let name = component_name(&identity.name, component);
        self.inventory.kept::<K>(&identity.namespace, &name)
    }

    /// Returns the watched object of a component, if it belongs to the stack and is not being deleted.
    pub fn own_child<K: Child>(
        &self,
        identity: &StackIdentity,
        component: Component,
        deletion: Deletion,
    ) -> Option<Arc<K::Kept>> {
        let live = self.child::<K>(identity, component)?;
        let meta = live.meta();
        let stays = meta.deletion_timestamp.is_none() && is_ours(meta, identity, deletion);
        stays.then_some(live)
    }

    /// Returns a stack, if it exists and this operator reconciles it.
    pub fn own_stack(&self, stack: &ObjectRef<GuardedStack>) -> Option<Arc<GuardedStack>> {
        let found = self.stacks.get(stack)?;
        is_of(&self.context.class, &found).then_some(found)
    }
}

/// Returns true when the operator of a class reconciles a stack: it is the `spec.operatorClass` of the stack. Every operator
/// sees one that does not parse, because its class is not known here.
pub fn is_of(class: &str, stack: &GuardedStack) -> bool {
    let stack = stack.0.as_ref();
    stack.map_or(true, |stack| {
        stack.spec.operator_class.as_deref().unwrap_or_default() == class
    })
}

/// Returns true if a scope, which is a namespace or the whole cluster, has this namespace.
pub fn covers(scope: Option<&str>, namespace: &str) -> bool {
    scope.is_none_or(|scope| scope == namespace)
}

impl Context {
    /// Creates a context without any remembered state, for at most `concurrent` reconciles at the same time.
    pub fn new(
        client: Client,
        defaults: Defaults,
        concurrent: usize,
        metrics: Metrics,
        health: Health,
    ) -> Self {
        Self {
            recorder: Recorder::new(client.clone(), FIELD_MANAGER.into()),
            permits: Semaphore::new(concurrent),
            client,
            defaults,
            metrics,
            health,
            writes: Writes::default(),
            class: String::new(),
            stacks: RwLock::default(),
            specs: Specs::default(),
            hosts: Hosts::default(),
            queues: Arc::default(),
            backends: Arc::default(),
            sole_entry: Arc::default(),
            end_to_end: Arc::default(),
            managers: Arc::default(),
            drills: Arc::default(),
            clock: Arc::new(jiff::Timestamp::now),
            tracer: Tracer::default(),
            failures: Mutex::default(),
        }
    }

    /// Sets the class of the stacks that the operator reconciles.
    #[must_use]
    pub fn of_class(mut self, class: impl Into<String>) -> Self {
        self.class = class.into();
        self
    }

    /// Adds the tracer of the process. Without it, no reconcile is traced.
    #[must_use]
    pub fn traced_by(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    /// Sets the clock by which drills begin and end.
    #[must_use]
    pub fn timed_by(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns every stack of all scopes and classes.
    pub fn known_stacks(&self) -> Vec<Arc<GuardedStack>> {
        let stacks = self.stacks.read();
        stacks
            .iter()
            .flat_map(|(_, stacks)| stacks.state())
            .collect()
    }

    /// Returns a stack of any scope and class.
    pub fn known_stack(&self, (namespace, name): &StackKey) -> Option<Arc<GuardedStack>> {
        let key = ObjectRef::new(name).within(namespace);
        let stacks = self.stacks.read();
        stacks.iter().find_map(|(_, stacks)| stacks.get(&key))
    }

    /// Returns true when the stacks of a namespace are listed.
    pub fn has_listed_stacks(&self, namespace: &str) -> bool {
        let scopes = self.stacks.read();
        let mut scopes = scopes.iter();
        scopes.any(|(scope, stacks)| covers(scope.as_deref(), namespace) && is_listed(stacks))
    }

    /// Returns true when the stack was deleted, its deletion has begun, or it has passed to another class, since its
    /// reconcile read it.
    pub fn is_deleted(&self, identity: &StackIdentity) -> bool {
        let key = ObjectRef::new(&identity.name).within(&identity.namespace);
        let stores = self.stacks.read();
        !stores
            .iter()
            .filter_map(|(_, stacks)| stacks.get(&key))
            .any(|stack| identity.is_live(stack.meta()) && is_of(&self.class, &stack))
    }

    /// Resets the failures of a stack, which ends its backoff.
    pub fn succeeded(&self, stack: &ObjectRef<GuardedStack>) {
        self.failures.lock().remove(stack);
    }

    /// Returns true when the last reconcile of a stack has failed, so that its retry is scheduled.
    pub fn is_failing(&self, stack: &ObjectRef<GuardedStack>) -> bool {
        self.failures.lock().contains_key(stack)
    }

    /// Returns true while the failures of a stack are so young that the next try often succeeds.
    pub fn is_patient(&self, identity: &StackIdentity) -> bool {
        let stack = ObjectRef::new(&identity.name).within(&identity.namespace);
        let failures = self.failures.lock();
        let first = failures.get(&stack).map(|failures| failures.first);
        first.is_none_or(|first| first.elapsed() < PATIENCE)
    }

    /// Counts a failure of a stack and returns the backoff.
    pub fn failed(&self, stack: &ObjectRef<GuardedStack>) -> Duration {
        let mut failures = self.failures.lock();
        let failures = failures.entry(stack.clone()).or_insert_with(|| Failures {
            count: 0,
            first: Instant::now(),
        });
        failures.count = failures.count.saturating_add(1);
        backoff(failures.count, LONGEST_BACKOFF)
    }
}

/// Returns the time until the next attempt after a number of failures in a row: 1 s, doubled with each failure up to
/// `longest`, with ±20 % jitter.
pub fn backoff(failures: u32, longest: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let time = Duration::from_secs(1 << doublings).min(longest);
    time.mul_f64(rand::random_range(0.8..1.2))
}

/// Returns a time that is up to a fifth shorter than `period`. Stacks that were reconciled together, as after a start,
/// thus spread over the period.
pub fn shortened(period: Duration) -> Duration {
    period.mul_f64(rand::random_range(0.8..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_start_together_do_not_stay_together() {
        let period = Duration::from_secs(300);
        let mut times: Vec<Duration> = (0..100).map(|_| shortened(period)).collect();
        times.sort();
        let (first, last) = (times[0], times[99]);
        assert!(first >= Duration::from_secs(240) && last <= period);
        assert!(
            last - first > Duration::from_secs(30),
            "{first:?} to {last:?}"
        );
    }
}
