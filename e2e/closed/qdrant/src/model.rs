//! Requests and answers in the form that both APIs share. The JSON of the HTTP API is parsed directly into the
//! engine's types; unsupported fields are refused.

use std::{collections::HashMap, num::NonZeroU64};

use qdrant_edge::{
    Distance, Filter, JsonPath, Payload, PayloadFieldSchema, PayloadIndexInfo, PointId,
    ScoredPoint, SearchParams, VectorStructInternal, WithPayloadInterface, WithVector,
};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The longest vector that the real server accepts.
const MAX_SIZE: u64 = 65_536;

/// The size and the distance of all vectors of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorParams {
    /// Length of a vector.
    pub size: NonZeroU64,
    /// Function that compares two vectors.
    pub distance: Distance,
}

/// A collection to create.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateCollection {
    /// Its vectors.
    pub vectors: VectorParams,
}

impl CreateCollection {
    /// Returns the parameters of the vectors if they are valid.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vector that is too long.
    pub fn validated(self) -> Result<VectorParams, Error> {
        if self.vectors.size.get() > MAX_SIZE {
            return Err(Error::Invalid(format!(
                "vectors.size: value {} invalid, must be from 1 to {MAX_SIZE}",
                self.vectors.size
            )));
        }
        Ok(self.vectors)
    }
}

/// The description of a collection.
#[derive(Debug, Clone)]
pub struct CollectionInfo {
    /// Its vectors.
    pub vectors: VectorParams,
    /// Number of its points.
    pub points: usize,
    /// Number of its segments.
    pub segments: usize,
    /// The fields of payloads that have an index.
    pub indexes: HashMap<JsonPath, PayloadIndexInfo>,
}

/// An index to create.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateIndex {
    /// The indexed field of the payload.
    pub field_name: JsonPath,
    /// The type of the field.
    pub field_schema: PayloadFieldSchema,
}

/// A point to store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its id; a point with the same id is replaced.
    pub id: PointId,
    /// Its vector, with the length that the collection requires.
    pub vector: Vec<f32>,
    /// Its payload, which answers return and filters match.
    pub payload: Option<Payload>,
}

/// Points to store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The points, at least one.
    pub points: Vec<Point>,
}

/// Points to delete.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Selection {
    /// By their ids.
    Points {
        /// Their ids; an id without a point is ignored.
        points: Vec<PointId>,
    },
    /// By their payloads.
    Filter {
        /// The filter that matches them.
        filter: Filter,
    },
}

/// Points to fetch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Their ids; an id without a point is left out of the answer.
    pub ids: Vec<PointId>,
    /// Selects the payload in the answer; none by default.
    #[serde(default = "nothing")]
    pub with_payload: WithPayloadInterface,
    /// Selects the vector in the answer; none by default.
    #[serde(default, alias = "with_vectors")]
    pub with_vector: WithVector,
}

/// A query for the points nearest to a vector; without a vector, all points in the order of their ids.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// The vector, with the length that the collection requires.
    pub vector: Option<Vec<f32>>,
    /// A filter that every found point must match.
    pub filter: Option<Filter>,
    /// Parameters of the search.
    pub params: Option<SearchParams>,
    /// The worst score that a found point may have.
    pub score_threshold: Option<f32>,
    /// The maximum number of points.
    pub limit: usize,
    /// Number of points to skip.
    pub offset: usize,
    /// Selects the payload in the answer; none by default.
    pub with_payload: WithPayloadInterface,
    /// Selects the vector in the answer; none by default.
    pub with_vector: WithVector,
}

impl Nearest {
    /// Returns the query if it is valid.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit of 0.
    pub fn validated(self) -> Result<Self, Error> {
        at_least_one("limit", Some(self.limit))?;
        Ok(self)
    }
}

/// Checks that a value is absent or positive.
///
/// # Errors
/// [`Error::Invalid`] for 0.
pub fn at_least_one(field: &str, value: Option<usize>) -> Result<(), Error> {
    match value {
        Some(0) => Err(Error::Invalid(format!(
            "{field}: value 0 invalid, must be 1 or larger"
        ))),
        _ => Ok(()),
    }
}

/// Returns the default of `with_payload`.
pub fn nothing() -> WithPayloadInterface {
    WithPayloadInterface::Bool(false)
}

/// The found points, nearest first.
pub type Found = Vec<ScoredPoint>;

/// Returns the vector, if it is the only one of its point. Collections here have no other kind.
pub fn unnamed(vector: VectorStructInternal) -> Option<Vec<f32>> {
    match vector {
        VectorStructInternal::Single(vector) => Some(vector),
        _ => None,
    }
}
