//! Faults of requests, and the schedule on which they occur.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// A way in which a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before the server sees the request.
    LoseRequest,
    /// The server carries the request out; the connection breaks before the answer.
    LoseResponse,
    /// The server answers this status without carrying the request out; 404 is the answer for a kind that it lacks.
    Refuse(u16),
    /// The server carries the request out and answers this status all the same.
    CommitThenAnswer(u16),
    /// The server carries the request out at once and answers after this time.
    AnswerLate(Duration),
    /// The server carries the request out after this time, whether or not the client still waits, and then answers.
    ArriveLate(Duration),
    /// The server neither carries the request out nor answers.
    Hang,
}

/// A way in which watches misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// No watch shows the change with this number.
    Drop(u64),
    /// Every change is shown twice.
    Double,
    /// A change is shown after the next one of the same kind, unless that takes too long.
    Swap,
    /// Every change ends the watch with `410 Gone`.
    Gone,
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
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Effect of the write; `None` if it was not carried out.
    pub effect: Option<Effect>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    writes: u64,
    scripted: BTreeMap<u64, Fault>,
    series: Option<Series>,
    always: Option<Fault>,
    /// Faults of the writes to a kind, by its plural.
    kinds: BTreeMap<String, Fault>,
    /// Faults of the reads of a kind, by its plural, or of an object, by its name.
    reads: BTreeMap<String, Fault>,
}

/// The faults of a write and of its repetitions.
#[derive(Debug)]
struct Series {
    /// Number of the write.
    number: u64,
    /// Method and object of the write; `None` until it arrives.
    target: Option<String>,
    faults: VecDeque<Fault>,
}

impl Series {
    fn next(&mut self, number: u64, target: &str) -> Option<Fault> {
        if number == self.number {
            self.target = Some(target.to_owned());
        }
        if self.target.as_deref() != Some(target) {
            return None;
        }
        self.faults.pop_front()
    }
}

impl Plan {
    /// Makes the write with this number fail; the next one has number 1.
    pub(super) fn fail_write(&mut self, number: u64, fault: Fault) {
        self.scripted.insert(self.writes + number, fault);
    }

    /// Makes the write with this number fail, and each repetition of it in the next of these ways.
    pub(super) fn fail_repeatedly(&mut self, number: u64, faults: &[Fault]) {
        self.series = Some(Series {
            number: self.writes + number,
            target: None,
            faults: faults.iter().copied().collect(),
        });
    }

    /// Returns the number of faults of single writes that have not occurred yet.
    pub(super) fn pending(&self) -> usize {
        let series = self.series.as_ref();
        self.scripted.len() + series.map_or(0, |series| series.faults.len())
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

    /// Makes every read of a kind, or of the objects with a name, fail; `None` ends this.
    pub(super) fn fail_reads(&mut self, subject: String, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.reads.insert(subject, fault),
            None => self.reads.remove(&subject),
        };
    }

    /// Returns the fault of the request that has just arrived. `target` is its method and its object.
    pub(super) fn next(&mut self, mutating: bool, target: &str) -> Option<Fault> {
        let kinds = if mutating { &self.kinds } else { &self.reads };
        let of_kind = kinds
            .iter()
            .find(|(plural, _)| target.split('/').any(|segment| segment == plural.as_str()));
        let of_kind = of_kind.map(|(_, fault)| *fault);
        if !mutating {
            return self.always.or(of_kind);
        }
        self.writes += 1;
        let number = self.writes;
        let scripted = self.scripted.remove(&number);
        let series = self.series.as_mut();
        let repeated = series.and_then(|series| series.next(number, target));
        self.always.or(scripted).or(repeated).or(of_kind)
    }
}
