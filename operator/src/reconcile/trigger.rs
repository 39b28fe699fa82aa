//! The causes of reconciles that are due, kept for their traces alone. kube does not tell them.

use std::{
    collections::HashMap,
    fmt::{self, Display, Formatter},
};

use parking_lot::Mutex;
use shortener_operator_core::model::metadata::StackKey;

use crate::kubernetes::inventory::Change;

/// A cause of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// An object changed that belongs to the stack, or that it uses.
    Object { kind: String, name: String },
    /// The watches began again, so that any object may have changed.
    Relist,
    /// A broker, a pod that tells the state of external stores, or a probe has said something new.
    Server,
    /// An object of others opens a way into the stack's namespace, or no longer does.
    Opening,
}

impl Trigger {
    /// Returns the cause that a change of the watched objects is.
    pub fn of(change: &Change) -> Self {
        match change {
            Change::Relisted => Self::Relist,
            Change::Object { kind, name, .. } => Self::Object {
                kind: kind.clone(),
                name: name.clone(),
            },
        }
    }
}

impl Display for Trigger {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { kind, name } => write!(formatter, "{kind}/{name}"),
            Self::Relist => formatter.write_str("relist"),
            Self::Server => formatter.write_str("server"),
            Self::Opening => formatter.write_str("opening"),
        }
    }
}

/// The first cause of each reconcile that is due.
#[derive(Debug, Default)]
pub struct TriggerLog(Mutex<HashMap<StackKey, Trigger>>);

impl TriggerLog {
    /// Keeps the cause of a reconcile, unless one is known.
    pub fn note(&self, stack: StackKey, trigger: Trigger) {
        self.0.lock().entry(stack).or_insert(trigger);
    }

    /// Returns the cause of the reconcile that begins, and forgets it. One that follows an edit or a timer has none.
    pub fn take(&self, stack: &StackKey) -> Option<Trigger> {
        self.0.lock().remove(stack)
    }
}
