//! Faults of requests, and the schedule on which they occur.

use std::{collections::BTreeMap, time::Duration};

/// A way in which a request fails.
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
    /// The server carries the request out at once and answers after this time.
    AnswerLate(Duration),
    /// The server neither carries the request out nor answers.
    Hang,
}

/// The effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A new object was created.
    Created,
    /// The object has changed.
    Changed,
    /// The object already had this content.
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
    /// Effect of the write; `None` if it was not carried out.
    pub effect: Option<Effect>,
}

/// The planned faults.
#[derive(Debug, Default)]
pub(super) struct Plan {
    writes: u64,
    scripted: BTreeMap<u64, Fault>,
    always: Option<Fault>,
    /// Faults of the writes to a kind, by its plural.
    kinds: BTreeMap<String, Fault>,
    /// Faults of the reads of a kind, by its plural.
    reads: BTreeMap<String, Fault>,
}

impl Plan {
    /// Makes the write with this number fail; the next one has number 1.
    pub(super) fn fail_write(&mut self, number: u64, fault: Fault) {
        self.scripted.insert(self.writes + number, fault);
    }

    /// Makes every request fail; `None` ends this.
    pub(super) fn fail_all(&mut self, fault: Option<Fault>) {
        self.always = fault;
    }

    /// Makes every write to a kind fail; `None` ends this.
    pub(super) fn fail_kind(&mut self, plural: String, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.kinds.insert(plural, fault),
            None => self.kinds.remove(&plural),
        };
    }

    /// Makes every read of a kind fail; `None` ends this.
    pub(super) fn fail_reads(&mut self, plural: String, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.reads.insert(plural, fault),
            None => self.reads.remove(&plural),
        };
    }

    /// Returns the fault of the request that has just arrived.
    pub(super) fn next(&mut self, mutating: bool, path: &str) -> Option<Fault> {
        if mutating {
            self.writes += 1;
        }
        let scripted = if mutating {
            self.scripted.remove(&self.writes)
        } else {
            None
        };
        let kinds = if mutating { &self.kinds } else { &self.reads };
        let of_kind = kinds
            .iter()
            .find(|(plural, _)| path.split('/').any(|segment| segment == plural.as_str()));
        self.always
            .or(scripted)
            .or(of_kind.map(|(_, fault)| *fault))
    }
}
