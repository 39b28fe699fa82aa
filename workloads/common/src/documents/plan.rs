//! What is to be done with documents on their way to the vector store, and what was done.

use std::collections::{HashMap, HashSet};

use super::{DocumentId, malformed};
use crate::{database::StoreError, vector::Point};

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many documents the store has now.
    pub indexed: usize,
    /// How many points it has no more.
    pub removed: usize,
    /// Documents whose vectors have another length than those of the collection.
    pub unfit: Vec<DocumentId>,
}

/// A document on its way to the store: identity, version, whether the rest was read, vector and payload.
pub(super) type Row = (i64, i64, bool, Option<Vec<f32>>, Option<String>);

/// Identities and the versions that were dealt with.
#[derive(Default)]
pub(super) struct Versions {
    pub(super) ids: Vec<i64>,
    pub(super) numbers: Vec<i64>,
}

impl Versions {
    pub(super) fn push(&mut self, id: i64, number: i64) {
        self.ids.push(id);
        self.numbers.push(number);
    }
}

/// Rows by what is to be done with them.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) points: Vec<Point>,
    pub(super) indexed: Versions,
    pub(super) removed: Versions,
    pub(super) unfit: Versions,
    /// Without a row; a point may be left all the same.
    pub(super) absent: Vec<i64>,
}

impl Plan {
    pub(super) fn new(ids: &[i64], rows: Vec<Row>, size: usize) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        let found: HashSet<i64> = rows.iter().map(|row| row.0).collect();
        plan.absent = ids
            .iter()
            .copied()
            .filter(|id| !found.contains(id))
            .collect();
        for (id, version, is_read, vector, payload) in rows {
            match vector {
                None if !is_read => {}
                None => plan.removed.push(id, version),
                Some(vector) if vector.len() != size => plan.unfit.push(id, version),
                Some(vector) => {
                    let payload = payload.unwrap_or_default();
                    plan.indexed.push(id, version);
                    plan.points.push(Point {
                        id: id.unsigned_abs(),
                        vector,
                        payload: serde_json::from_str(&payload).map_err(malformed)?,
                    });
                }
            }
        }
        Ok(plan)
    }

    /// The version that was dealt with, by identity.
    pub(super) fn versions(&self) -> HashMap<i64, i64> {
        [&self.indexed, &self.removed, &self.unfit]
            .into_iter()
            .flat_map(|versions| {
                versions
                    .ids
                    .iter()
                    .copied()
                    .zip(versions.numbers.iter().copied())
            })
            .collect()
    }
}

impl Report {
    pub(super) fn add(&mut self, plan: &Plan) {
        self.indexed += plan.indexed.ids.len();
        self.removed += plan.removed.ids.len() + plan.absent.len();
        self.unfit
            .extend(plan.unfit.ids.iter().copied().map(DocumentId));
    }

    pub(super) fn join(&mut self, other: Self) {
        self.indexed += other.indexed;
        self.removed += other.removed;
        self.unfit.extend(other.unfit);
    }
}
