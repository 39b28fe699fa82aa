//! Requests and answers in the form that both APIs share. What HTTP carries is read straight into the engine's own
//! types; fields that are not known here are refused.

use std::{collections::HashMap, num::NonZeroU64};

use qdrant_edge::{
    Distance, Filter, JsonPath, Payload, PayloadFieldSchema, PayloadIndexInfo, PointId,
    ScoredPoint, SearchParams, VectorStructInternal, WithPayloadInterface, WithVector,
};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The longest vector that the real server takes.
const MAX_SIZE: u64 = 65_536;

/// What all vectors of a collection have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorParams {
    /// How many numbers a vector has.
    pub size: NonZeroU64,
    /// How vectors are compared.
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

/// What there is to know of a collection.
#[derive(Debug, Clone)]
pub struct CollectionInfo {
    /// Its vectors.
    pub vectors: VectorParams,
    /// How many points it holds.
    pub points: usize,
    /// How many segments the points are in.
    pub segments: usize,
    /// The fields of payloads that have an index.
    pub indexes: HashMap<JsonPath, PayloadIndexInfo>,
}

/// An index to create.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateIndex {
    /// The field of payloads.
    pub field_name: JsonPath,
    /// What the field holds.
    pub field_schema: PayloadFieldSchema,
}

/// A point to store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Takes the place of the point that had this one before.
    pub id: PointId,
    /// As long as the collection's.
    pub vector: Vec<f32>,
    /// What comes back with the point and what filters look at.
    pub payload: Option<Payload>,
}

/// Points to store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// At least one.
    pub points: Vec<Point>,
}

/// Points to delete.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Selection {
    /// By their ids.
    Points {
        /// Those that do not exist do no harm.
        points: Vec<PointId>,
    },
    /// By their payloads.
    Filter {
        /// What they match.
        filter: Filter,
    },
}

/// Points to fetch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Those that do not exist are left out.
    pub ids: Vec<PointId>,
    /// None without saying so.
    #[serde(default = "nothing")]
    pub with_payload: WithPayloadInterface,
    /// None without saying so.
    #[serde(default, alias = "with_vectors")]
    pub with_vector: WithVector,
}

/// A search for the points nearest to a vector; without a vector all points, by their ids.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// As long as the collection's.
    pub vector: Option<Vec<f32>>,
    /// Which points may be found.
    pub filter: Option<Filter>,
    /// How to search.
    pub params: Option<SearchParams>,
    /// No point that is further away.
    pub score_threshold: Option<f32>,
    /// At most that many points.
    pub limit: usize,
    /// After leaving out that many.
    pub offset: usize,
    /// None without saying so.
    pub with_payload: WithPayloadInterface,
    /// None without saying so.
    pub with_vector: WithVector,
}

impl Nearest {
    /// # Errors
    /// [`Error::Invalid`] for a limit of 0.
    pub fn validated(self) -> Result<Self, Error> {
        at_least_one("limit", Some(self.limit))?;
        Ok(self)
    }
}

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

/// What `with_payload` means when it is not there.
pub fn nothing() -> WithPayloadInterface {
    WithPayloadInterface::Bool(false)
}

/// Points that were found, nearest first.
pub type Found = Vec<ScoredPoint>;

/// Collections here have one vector per point, and no other kind.
pub fn unnamed(vector: VectorStructInternal) -> Option<Vec<f32>> {
    match vector {
        VectorStructInternal::Single(vector) => Some(vector),
        _ => None,
    }
}
