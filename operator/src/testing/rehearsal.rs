//! Changes of a stack, each with its run without faults. Tests repeat the change with a fault and compare the ends.

mod scenarios;

pub use scenarios::{deletions, gateways, life, profiles, some};

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use super::{
    api_server::{Effect, FakeApiServer, Write},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// A change of a stack.
pub struct Scenario {
    /// Name for messages.
    pub name: &'static str,
    /// Spec of the stack before the change; `None` if the change creates it.
    before: Option<Value>,
    /// True if the cluster has the optional kinds.
    optional_kinds: bool,
    change: fn(&World),
}

/// A scenario with its run without faults.
pub struct Rehearsal {
    /// Name for messages.
    pub name: &'static str,
    /// Every write of the run.
    pub writes: Vec<Write>,
    /// The object of each change of the run, Events included.
    pub changes: Vec<String>,
    before: FakeApiServer,
    change: fn(&World),
    after: FakeApiServer,
}

impl Scenario {
    /// Runs the scenario without faults.
    pub async fn rehearse(self) -> Rehearsal {
        let server = FakeApiServer::default();
        if self.optional_kinds {
            server.add_optional_kinds();
        }
        let keeps_data = match &self.before {
            Some(spec) => {
                build(&server, spec).await;
                spec["deletionPolicy"] != "Delete"
            }
            None => true,
        };
        let rehearsal = Rehearsal {
            name: self.name,
            writes: Vec::new(),
            changes: Vec::new(),
            before: server.fork(),
            change: self.change,
            after: server,
        };
        let world = rehearsal.begin().await;
        rehearsal.change(&world);
        world.settle().await;
        let server = world.server.clone();
        if keeps_data {
            let turnover = server.turnover().into_iter();
            let lost = turnover.filter(|(name, [_, deleted])| holds_data(name) && *deleted > 0);
            let lost: Vec<_> = lost.collect();
            assert!(lost.is_empty(), "{}: {lost:?}", self.name);
        }
        Rehearsal {
            writes: server.writes(),
            changes: server.changed_objects(),
            after: server,
            ..rehearsal
        }
    }
}

/// Builds the stack `acme` and gives its app an address, as the API server would.
async fn build(server: &FakeApiServer, spec: &Value) {
    let world = World::start(server.clone());
    world.server.create(&stored_stack(spec.clone()));
    world.settle().await;
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into();
        });
    world.settle().await;
}

/// Returns true for an object that may outlive its stack and its profile.
pub fn holds_data(name: &str) -> bool {
    name.starts_with("persistentvolumeclaims/") || name.starts_with("secrets/")
}

impl Rehearsal {
    /// Starts an operator before the change.
    pub async fn begin(&self) -> World {
        let world = World::start(self.before.fork());
        world.settle().await;
        assert_eq!(world.server.writes(), [], "{}", self.name);
        world
    }

    pub fn change(&self, world: &World) {
        (self.change)(world);
    }

    /// Returns the numbers of the writes in which a fault matters: Events are best effort.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let numbered = (1..).zip(&self.writes);
        numbered.filter_map(|(number, write)| (!is_event(write)).then_some(number))
    }

    /// Returns the end of the run as it looked after this number of changes. A running operator sees only those until
    /// the rest is released.
    pub fn end_showing(&self, changes: usize) -> FakeApiServer {
        self.after.fork_showing(changes)
    }

    /// Asserts that a run with a fault ended like the one without: with the same objects, created and deleted as
    /// often, and without another value of any credential.
    pub fn assert_same_run(&self, world: &World, case: &str) {
        self.assert_same_end(world, case);
        let (expected, found) = (self.after.turnover(), world.server.turnover());
        assert_same(&expected, &found, case, "creations and deletions");
        let changed = world.server.changed_credentials();
        assert!(changed.is_empty(), "{case}: new values of {changed:?}");
    }

    /// Asserts that the objects are those of the run without a fault.
    pub fn assert_same_end(&self, world: &World, case: &str) {
        let (expected, found) = (self.after.objects(), world.server.objects());
        assert_same(&expected, &found, case, "object");
    }

    /// Asserts that a run with this number of faults took few writes: at most one more for each fault that had an effect on
    /// children, and at most three times those of the status, beside the reports about each fault.
    pub fn assert_few_writes(&self, world: &World, faults: usize, case: &str) {
        let writes = world.server.writes();
        let (expected, found) = (count(&self.writes, is_child), count(&writes, is_child));
        assert!(
            found <= expected + faults,
            "{case}: {found} writes of children, {expected} without the fault"
        );
        let (expected, found) = (count(&self.writes, is_status), count(&writes, is_status));
        assert!(
            found <= 3 * expected + 2 * faults,
            "{case}: {found} writes of the status, {expected} without the fault"
        );
    }
}

/// Asserts that two maps are equal. The message has the name of the first entry that differs.
pub fn assert_same<T: PartialEq + std::fmt::Debug>(
    expected: &BTreeMap<String, T>,
    found: &BTreeMap<String, T>,
    case: &str,
    what: &str,
) {
    for name in expected.keys().chain(found.keys()) {
        let (expected, found) = (expected.get(name), found.get(name));
        assert_eq!(found, expected, "{case}: {what} of {name}");
    }
}

fn count(writes: &[Write], kind: fn(&Write) -> bool) -> usize {
    let effective = |write: &&Write| {
        let effect = write.effect;
        kind(write) && effect.is_some_and(|effect| effect != Effect::Unchanged)
    };
    writes.iter().filter(effective).count()
}

fn is_event(write: &Write) -> bool {
    write.path.contains("/events")
}

fn is_status(write: &Write) -> bool {
    write.path.ends_with("/status")
}

fn is_child(write: &Write) -> bool {
    !is_event(write) && !is_status(write)
}
