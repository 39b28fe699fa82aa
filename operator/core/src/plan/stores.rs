//! The stores, in one table: the database, the cache, the broker, the backend of traces, logs and metrics, and the
//! vector store.
//!
//! A store is a folder here and an arm of the function `of`. Its `Definition` names everything in which it differs from
//! the others, so the compiler asks for each part of a new one. The steps visit the stores in the order of
//! [`Component::WITH_PODS`].

pub(super) mod cache;
pub(super) mod certificates;
pub(super) mod clients;
pub(super) mod common;
pub mod external;
pub(super) mod postgres;
pub(super) mod qdrant;
pub(super) mod rabbitmq;
pub(super) mod telemetry;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{EnvVar, PodSpec},
};

use super::verdict::{Verdict, View};
use crate::{
    api::{Profile, ShortenerStackSpec},
    model::{
        access::Part,
        external::ExternalReference,
        metadata::Component,
        stack::{ManagedStore, Store, ValidatedStack},
    },
};

/// The stack's own programs that run on.
pub(super) const PROGRAMS: [Component; 3] =
    [Component::App, Component::Worker, Component::Webhooks];
/// The components that use the queue and the vector store.
pub(super) const JOB_CLIENTS: [Component; 2] = [Component::App, Component::Worker];

/// The components that use the database.
pub(super) const DATABASE_CLIENTS: [Component; 6] = [
    Component::App,
    Component::Worker,
    Component::Purge,
    Component::Webhooks,
    Component::Backup,
    Component::Move,
];
/// The components that send traces and logs.
pub(super) const TRACED: [Component; 4] = [
    Component::App,
    Component::Worker,
    Component::Purge,
    Component::Webhooks,
];

/// A store: everything in which it differs from the others. Functions that return an object return `None` if the
/// operator does not run the store.
pub(super) struct Definition {
    pub(super) component: Component,
    /// Field of the spec with its settings.
    pub(super) field: &'static str,
    /// Name of the server in messages.
    pub(super) noun: &'static str,
    /// Profile that it belongs to; `None` for the base stack.
    pub(super) profile: Option<Profile>,
    /// Keys that its Secret must contain.
    pub(super) keys: &'static [&'static str],
    /// Parts of the connection settings that its clients accept from the Secret of an external one.
    pub(super) parts: &'static [Part],
    pub(super) ports: &'static [Port],
    /// Components that connect to it.
    pub(super) clients: &'static [Component],
    /// True when its pod may open connections.
    pub(super) egress: bool,
    /// Returns true when a spec whose profile is on has it.
    pub(super) wanted: fn(&ShortenerStackSpec) -> bool,
    /// Returns the references to the Secrets of one that the operator does not run, for the name of the stack; `None` if it
    /// runs it.
    pub(super) external: fn(&ShortenerStackSpec, &str) -> Option<ExternalReference>,
    /// Returns the store of a stack that has one.
    pub(super) store: fn(&ValidatedStack) -> Option<&Store>,
    /// Returns the environment variables of a client; none if the client must not use the store.
    pub(super) env: fn(&ValidatedStack, Component) -> Vec<EnvVar>,
    /// Returns the data of its Secret that is rendered from the credentials.
    pub(super) rendered_secret: fn(&ValidatedStack) -> Option<BTreeMap<String, ByteString>>,
    /// Returns the files of its configuration.
    pub(super) files: fn(&ValidatedStack) -> Option<BTreeMap<String, String>>,
    /// Returns what its pod read at its start beside the credentials, as a text that changes with it.
    pub(super) configuration: fn(&ValidatedStack) -> Option<String>,
    /// Returns its pod.
    pub(super) pod: fn(&ValidatedStack, &ManagedStore) -> PodSpec,
    /// Its condition; `None` if the condition of another component includes it.
    pub(super) condition: Option<StoreCondition>,
}

/// A port of a store, and the peers that connect to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Name in the Service and in the pod.
    pub(super) name: &'static str,
    /// Number in both.
    pub(super) number: i32,
    /// True when the stack's own pods that use the store connect.
    pub(super) clients: bool,
    /// True when the operator connects.
    pub(super) operator: bool,
}

/// The condition of a store.
pub(super) struct StoreCondition {
    pub(super) type_: &'static str,
    /// Returns the verdict; `None` if the stack lacks the store.
    pub(super) verdict: fn(View<'_>) -> Option<Verdict>,
}

/// Returns the definition of a component; `None` if the component is no store.
pub(super) fn of(component: Component) -> Option<&'static Definition> {
    match component {
        Component::Postgres => Some(&postgres::STORE),
        Component::Cache => Some(&cache::STORE),
        Component::Rabbitmq => Some(&rabbitmq::STORE),
        Component::Telemetry => Some(&telemetry::STORE),
        Component::Qdrant => Some(&qdrant::STORE),
        Component::App
        | Component::Gateway
        | Component::Worker
        | Component::Purge
        | Component::Webhooks
        | Component::Backup
        | Component::Verify
        | Component::Move
        | Component::Otel
        | Component::Stack => None,
    }
}

pub(super) fn all() -> impl Iterator<Item = &'static Definition> {
    Component::WITH_PODS.into_iter().filter_map(of)
}

/// Returns the stores that the operator runs.
pub(super) fn managed(stack: &ValidatedStack) -> Vec<(&'static Definition, &ManagedStore)> {
    all()
        .filter_map(|store| Some((store, (store.store)(stack)?.managed()?)))
        .collect()
}

/// Returns the field of the spec with the settings of a store.
pub(super) fn field(store: Component) -> &'static str {
    of(store).map(|store| store.field).unwrap_or_default()
}

/// Returns the keys that a store's Secret must contain.
pub fn keys(store: Component) -> &'static [&'static str] {
    of(store).map(|store| store.keys).unwrap_or_default()
}

/// Returns the parts of the connection settings that a store's clients accept from the Secret of an external one.
pub fn parts(store: Component) -> &'static [Part] {
    of(store).map(|store| store.parts).unwrap_or_default()
}

/// Returns the StatefulSet of a store; `None` if the operator does not run it.
#[cfg(test)]
pub(super) fn stateful_set(
    component: Component,
    stack: &ValidatedStack,
) -> Option<k8s_openapi::api::apps::v1::StatefulSet> {
    let mut managed = managed(stack).into_iter();
    let (store, server) = managed.find(|(store, _)| store.component == component)?;
    Some(common::stateful_set(stack, store, server))
}

/// Returns the checksum in the pod template of a store, a change of which restarts the server.
#[cfg(test)]
fn config_checksum(component: Component, stack: &ValidatedStack) -> String {
    let template = stateful_set(component, stack)
        .unwrap()
        .spec
        .unwrap()
        .template;
    let annotations = template.metadata.unwrap().annotations.unwrap();
    annotations[crate::model::metadata::CONFIG_CHECKSUM].clone()
}

#[cfg(test)]
mod tests {
    use crate::testing::stack::every_profile;

    #[test]
    fn the_modifiers_of_test_stacks_reach_every_store() {
        let mut stack = every_profile();
        let stores = super::managed(&stack).len();
        assert_eq!(stack.stores_mut().count(), stores);
    }
}
