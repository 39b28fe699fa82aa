//! A witness of every change of a stack's children, above all of its credentials and volume claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::Value;
use shortener_operator_core::model::credentials::DEFINITIONS_KEY;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::harness::{PATIENCE, Stack, child_kinds};

/// A change of an object.
#[derive(Clone, Debug)]
struct Change {
    /// Revision of the API server's store. It orders the changes of all kinds.
    revision: u64,
    kind: String,
    name: String,
    uid: Option<String>,
    /// Data of a Secret.
    data: Value,
    deleted: bool,
}

/// The changes of every child kind in the namespace of a stack, from the moment on at which it is asked to watch.
pub struct Witness {
    seen: watch::Receiver<Vec<Change>>,
    /// The watches end with the witness.
    _watches: JoinSet<()>,
}

impl Witness {
    /// Watches the namespace of a stack.
    pub fn of(stack: &Stack) -> Self {
        let (sender, seen) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        let mut watches = JoinSet::new();
        for kind in child_kinds() {
            let (client, namespace) = (stack.client.clone(), &stack.namespace);
            let api = Api::namespaced_with(client, namespace, &kind);
            watches.spawn(follow(api, kind, sender.clone()));
        }
        Self {
            seen,
            _watches: watches,
        }
    }

    /// Waits until so many more changes were seen, or the time is over.
    pub async fn see(&mut self, number: usize, limit: Duration) {
        let wanted = self.number() + number;
        let seen = self.seen.wait_for(|seen| seen.len() >= wanted);
        // An operator that has nothing to do makes no change.
        let _ = timeout(limit, seen).await;
    }

    /// Waits until an object was seen whose name begins with this text, and returns at once then.
    pub async fn see_named(&mut self, start: &str) -> Result<()> {
        let seen = self
            .seen
            .wait_for(|seen| seen.iter().any(|change| change.name.starts_with(start)));
        let seen = timeout(PATIENCE, seen).await;
        seen.with_context(|| format!("no object was seen whose name begins with {start}"))??;
        Ok(())
    }

    /// Returns the number of changes that were seen.
    pub fn number(&self) -> usize {
        self.seen.borrow().len()
    }

    /// Returns the number of objects that were seen whose names begin with this text.
    pub fn named(&self, start: &str) -> usize {
        let seen = self.seen.borrow();
        let named = seen.iter().filter(|change| change.name.starts_with(start));
        let objects: BTreeSet<_> = named.map(|change| (&change.kind, &change.name)).collect();
        objects.len()
    }

    /// Returns the Secrets that had more than one content during the life of the volume claim of their name.
    pub fn minted_twice(&self) -> Vec<String> {
        twice(self.seen.borrow().clone())
    }
}

async fn follow(
    api: Api<DynamicObject>,
    kind: ApiResource,
    changes: Arc<watch::Sender<Vec<Change>>>,
) {
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        let (object, deleted) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            // The watch is opened again where it was interrupted.
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        let revision = object.resource_version().and_then(|text| text.parse().ok());
        let is_secret = kind.kind == "Secret";
        let change = Change {
            revision: revision.unwrap_or_default(),
            kind: kind.kind.clone(),
            name: object.name_any(),
            uid: object.uid(),
            data: if is_secret {
                object.data["data"].clone()
            } else {
                Value::Null
            },
            deleted,
        };
        changes.send_modify(|seen| seen.push(change));
    }
}

/// The life of a volume claim.
struct Life {
    uid: Option<String>,
    /// The first credentials that there were in it.
    credentials: Option<Value>,
}

/// Returns the Secrets that changed during the life of the volume claim of their name. The Secret is older than its
/// claim, and may be gone and come back during its life.
fn twice(mut changes: Vec<Change>) -> Vec<String> {
    changes.sort_by_key(|change| change.revision);
    let mut secrets: BTreeMap<String, Value> = BTreeMap::new();
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    let mut found = Vec::new();
    for change in changes {
        let Change { name, uid, .. } = change;
        match (change.kind.as_str(), change.deleted) {
            ("PersistentVolumeClaim", false) => {
                let credentials = secrets.get(&name).cloned();
                let life = Life { uid, credentials };
                let known = lives.get(&name).is_some_and(|known| known.uid == life.uid);
                if !known {
                    lives.insert(name, life);
                }
            }
            ("PersistentVolumeClaim", true) => {
                lives.remove(&name);
            }
            ("Secret", false) => {
                if let Some(life) = lives.get_mut(&name) {
                    let first = life.credentials.get_or_insert_with(|| change.data.clone());
                    let changed = changed_entries(first, &change.data);
                    if !changed.is_empty() {
                        let revision = change.revision;
                        found.push(format!("Secret {name} at revision {revision}: {changed:?}"));
                    }
                }
                secrets.insert(name, change.data);
            }
            ("Secret", true) => {
                secrets.remove(&name);
            }
            _ => {}
        }
    }
    found
}

/// Adds entries that are new to the first ones of a life; returns the names of those whose value has changed, never a
/// value. The broker's definitions are no credential: they are written anew from the passwords and the stack's key.
fn changed_entries(first: &mut Value, now: &Value) -> Vec<String> {
    let now = now.as_object().into_iter().flatten();
    let mut changed = Vec::new();
    for (name, value) in now.filter(|(name, _)| *name != DEFINITIONS_KEY) {
        match first.get(name) {
            Some(known) if known != value => changed.push(name.clone()),
            Some(_) => {}
            None => first[name] = value.clone(),
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLAIM: &str = "PersistentVolumeClaim";

    fn found(changes: &[(&str, &str, bool)]) -> usize {
        let changes = changes.iter().zip(1..);
        let changes = changes.map(|((kind, content, deleted), revision)| Change {
            revision,
            kind: (*kind).to_owned(),
            name: "acme-postgres".to_owned(),
            uid: Some((*content).to_owned()),
            data: json!({"password": content}),
            deleted: *deleted,
        });
        // The watches of two kinds are not in step.
        let mut changes: Vec<Change> = changes.collect();
        changes.reverse();
        twice(changes).len()
    }

    #[test]
    fn a_second_password_over_one_volume_is_found() {
        let (first, claim) = (("Secret", "one", false), (CLAIM, "a", false));
        let second = ("Secret", "two", false);
        assert_eq!(found(&[first, claim, first, claim]), 0);
        assert_eq!(found(&[first, claim, second]), 1);
        assert_eq!(found(&[first, claim, ("Secret", "one", true), second]), 1);
    }

    #[test]
    fn a_new_volume_has_a_password_of_its_own() {
        let (first, claim) = (("Secret", "one", false), (CLAIM, "a", false));
        let second = ("Secret", "two", false);
        let gone = [(CLAIM, "a", true), ("Secret", "one", true)];
        let life = [first, claim, gone[0], gone[1], second];
        assert_eq!(found(&life), 0);
        assert_eq!(found(&[first, claim, gone[1], gone[0], second]), 0);
    }
}
