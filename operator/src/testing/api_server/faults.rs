//! What goes wrong, and when.

use std::collections::BTreeMap;

/// A request that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before the server sees the request.
    LoseRequest,
    /// The server carries the request out; the connection breaks before the answer.
    LoseResponse,
    /// The server answers this status without carrying the request out.
    Refuse(u16),
    /// The server carries the request out and answers this status all the same.
    CommitThenAnswer(u16),
    /// The server never answers.
    Hang,
}

/// What a write led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A new object.
    Created,
    /// The object has changed.
    Changed,
    /// The object was like that already.
    Unchanged,
    /// The object is gone, or marked for deletion.
    Deleted,
}

/// A mutating request that reached the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// `None`: not carried out.
    pub effect: Option<Effect>,
}

/// The faults to come.
#[derive(Debug, Default)]
pub(super) struct Plan {
    writes: u64,
    scripted: BTreeMap<u64, Fault>,
    always: Option<Fault>,
    /// Faults of the writes to a kind, by its plural.
    kinds: BTreeMap<String, Fault>,
}

impl Plan {
    /// Lets a write fail, counted from 1 for the next one.
    pub(super) fn fail_write(&mut self, number: u64, fault: Fault) {
        self.scripted.insert(self.writes + number, fault);
    }

    /// Lets every request fail, or none any more.
    pub(super) fn fail_all(&mut self, fault: Option<Fault>) {
        self.always = fault;
    }

    /// Lets every write to a kind fail, or none any more.
    pub(super) fn fail_kind(&mut self, plural: String, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.kinds.insert(plural, fault),
            None => self.kinds.remove(&plural),
        };
    }

    /// The fault of the request that has just arrived.
    pub(super) fn next(&mut self, mutating: bool, path: &str) -> Option<Fault> {
        if mutating {
            self.writes += 1;
        }
        let scripted = if mutating {
            self.scripted.remove(&self.writes)
        } else {
            None
        };
        let of_kind = self.kinds.iter().find(|(plural, _)| {
            mutating && path.split('/').any(|segment| segment == plural.as_str())
        });
        self.always
            .or(scripted)
            .or(of_kind.map(|(_, fault)| *fault))
    }
}
