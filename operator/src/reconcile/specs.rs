//! The specs with which stacks were last reconciled. From a stack of a later release, the API server drops the fields that an
//! older resource definition lacks, and the generation stays. What is left may open what those fields protect.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use kube::{Api, Client, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use shortener_operator_core::api::ShortenerStack;

use super::context::GuardedStack;
use crate::kubernetes::definition;

/// The spec of each stack.
#[derive(Default)]
pub struct Specs(Mutex<HashMap<ObjectRef<GuardedStack>, Seen>>);

/// A spec that was reconciled.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    uid: Option<String>,
    generation: Option<i64>,
    /// Hash of the spec.
    hash: u64,
}

impl Specs {
    /// Returns true when a stack has the spec that its user wrote, and remembers it. The definition and the stack are read if
    /// the spec has changed without a new generation.
    pub async fn is_whole(&self, client: &Client, stack: &ShortenerStack) -> bool {
        let key = reference(stack);
        let seen = Seen::of(stack);
        let before = self.0.lock().get(&key).cloned();
        let is_edit = before.is_none_or(|before| {
            before == seen || (&before.uid, before.generation) != (&seen.uid, seen.generation)
        });
        let is_whole = is_edit || is_live(client, stack, &seen).await;
        if is_whole {
            self.0.lock().insert(key, seen);
        }
        is_whole
    }

    /// Removes a stack that is gone.
    pub fn forget(&self, stack: &ObjectRef<GuardedStack>) {
        self.0.lock().remove(stack);
    }
}

/// Returns true when the definition is current and the API server has the same spec. The watch may still show one that lacks
/// fields.
async fn is_live(client: &Client, stack: &ShortenerStack, seen: &Seen) -> bool {
    if !matches!(definition::complaint(client).await, Ok(None)) {
        return false;
    }
    let namespace = stack.namespace().unwrap_or_default();
    let stacks: Api<ShortenerStack> = Api::namespaced(client.clone(), &namespace);
    let live = stacks.get(&stack.name_any()).await;
    live.is_ok_and(|live| Seen::of(&live) == *seen)
}

impl Seen {
    fn of(stack: &ShortenerStack) -> Self {
        let mut hasher = DefaultHasher::new();
        let spec = serde_json::to_string(&stack.spec).unwrap_or_default();
        spec.hash(&mut hasher);
        Self {
            uid: stack.metadata.uid.clone(),
            generation: stack.metadata.generation,
            hash: hasher.finish(),
        }
    }
}

fn reference(stack: &ShortenerStack) -> ObjectRef<GuardedStack> {
    ObjectRef::new(&stack.name_any()).within(&stack.namespace().unwrap_or_default())
}
