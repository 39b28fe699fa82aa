//! Queries, and the hits of their answers.

use qdrant_client::{
    Payload,
    qdrant::{ScoredPoint, r#match::MatchValue, point_id::PointIdOptions},
};
use serde_json::{Map, Value};

/// A search for the nearest points.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The vector to which the points should be near, as the collection takes it.
    pub vector: Vec<f32>,
    /// Maximum number of hits.
    pub limit: u64,
    /// True if the hits should include their payloads.
    pub with_payload: bool,
    /// Payload fields and their required values; a point must match all of them.
    pub filter: Vec<(String, MatchValue)>,
}

/// One of the nearest points.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub id: u64,
    /// The score by the distance of the collection, a finite number.
    pub score: f32,
    /// The payload, if requested.
    pub payload: Option<Map<String, Value>>,
}

impl Hit {
    /// Returns the hit, or `None` for a foreign point: the stack's own points are all identified by a number, and have
    /// finite scores.
    pub(super) fn new(point: ScoredPoint, with_payload: bool) -> Option<Self> {
        let Some(PointIdOptions::Num(id)) = point.id?.point_id_options else {
            return None;
        };
        if !point.score.is_finite() {
            return None;
        }
        let payload = || Map::from(Payload::from(point.payload));
        Some(Self {
            id,
            score: point.score,
            payload: with_payload.then(payload),
        })
    }
}
