//! Points and questions, and their form on the wire.

use qdrant_client::{
    Payload,
    qdrant::{PointStruct, ScoredPoint, r#match::MatchValue, point_id::PointIdOptions},
};
use serde_json::{Map, Value};

/// A point to be stored.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its identity.
    pub id: u64,
    /// Its place.
    pub vector: Vec<f32>,
    /// What it says.
    pub payload: Map<String, Value>,
}

/// What to look for.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The vector to be near to.
    pub vector: Vec<f32>,
    /// The most hits.
    pub limit: u64,
    /// Whether payloads are wanted.
    pub with_payload: bool,
    /// Payload fields and what all of them must equal.
    pub filter: Vec<(String, Match)>,
}

/// What a payload field must equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A truth value.
    Flag(bool),
}

/// One of the nearest points.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its identity.
    pub id: u64,
    /// How near it is.
    pub score: f32,
    /// What it says, when asked for.
    pub payload: Option<Map<String, Value>>,
}

impl From<Point> for PointStruct {
    fn from(point: Point) -> Self {
        Self::new(point.id, point.vector, Payload::from(point.payload))
    }
}

impl From<Match> for MatchValue {
    fn from(value: Match) -> Self {
        match value {
            Match::Text(text) => text.into(),
            Match::Number(number) => number.into(),
            Match::Flag(flag) => flag.into(),
        }
    }
}

impl Hit {
    /// `None` for what is not the stack's own: its points all have a number.
    pub(super) fn new(point: ScoredPoint, with_payload: bool) -> Option<Self> {
        let Some(PointIdOptions::Num(id)) = point.id?.point_id_options else {
            return None;
        };
        let payload = || Map::from(Payload::from(point.payload));
        Some(Self {
            id,
            score: point.score,
            payload: with_payload.then(payload),
        })
    }
}
