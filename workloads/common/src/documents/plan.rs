//! The planned changes of the vector store for a batch of documents, and the report of the changes made.

use std::collections::{HashMap, HashSet};

use qdrant_client::{Payload, qdrant::PointStruct};
use serde_json::{Map, Value};

use super::{DocumentId, malformed};
use crate::{
    database::StoreError,
    vector::{Shape, Unfit},
};

/// The changes made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Number of documents that were written to the store.
    pub indexed: usize,
    /// Number of points that were removed from the store.
    pub removed: usize,
    /// Documents whose vectors the collection does not take.
    pub unfit: Vec<(DocumentId, Unfit)>,
}

/// A row of a document: identifier, version, true if the contents were read, vector and payload.
pub(super) type Row = (i64, i64, bool, Option<Vec<f32>>, Option<String>);

/// Identifiers and the versions that were processed, at equal positions.
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

/// The rows of a batch by the action that each needs.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) points: Vec<PointStruct>,
    pub(super) indexed: Versions,
    pub(super) removed: Versions,
    pub(super) unfit: Versions,
    /// Why the documents of `unfit` are, at equal positions.
    reasons: Vec<Unfit>,
    /// Identifiers without a row; the store may still have a point.
    pub(super) absent: Vec<i64>,
}

impl Plan {
    pub(super) fn new(ids: &[i64], rows: Vec<Row>, shape: Shape) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        let found: HashSet<i64> = rows.iter().map(|row| row.0).collect();
        plan.absent = ids
            .iter()
            .copied()
            .filter(|id| !found.contains(id))
            .collect();
        for (id, version, is_read, vector, payload) in rows {
            match vector.map(|vector| shape.fit(&vector)) {
                None if !is_read => {}
                None => plan.removed.push(id, version),
                Some(Err(reason)) => {
                    plan.unfit.push(id, version);
                    plan.reasons.push(reason);
                }
                Some(Ok(vector)) => {
                    let payload = payload.unwrap_or_default();
                    plan.indexed.push(id, version);
                    let payload: Map<String, Value> =
                        serde_json::from_str(&payload).map_err(malformed)?;
                    let id = id.unsigned_abs();
                    plan.points
                        .push(PointStruct::new(id, vector, Payload::from(payload)));
                }
            }
        }
        Ok(plan)
    }

    /// Returns the versions that were processed, by identifier.
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
        let ids = plan.unfit.ids.iter().copied().map(DocumentId);
        self.unfit.extend(ids.zip(plan.reasons.iter().copied()));
    }

    pub(super) fn join(&mut self, other: Self) {
        self.indexed += other.indexed;
        self.removed += other.removed;
        self.unfit.extend(other.unfit);
    }
}
