//! Conversions of ids, vectors and payloads between messages and the engine's types.

use std::collections::HashMap;

use qdrant_client::qdrant::{
    self as wire, point_id::PointIdOptions, vectors::VectorsOptions, with_payload_selector,
    with_vectors_selector,
};
use qdrant_edge::{
    Payload, PointId, Record, ScoredPoint, SearchParams, VectorStructInternal,
    WithPayloadInterface, WithVector,
};
use serde_json::json;
use tonic::Status;

use super::{refuse, unknown};
use crate::model::{Point, nothing, unnamed};

/// Converts the id of a message.
///
/// # Errors
/// `INVALID_ARGUMENT` for a missing id and for one that is neither a number nor a UUID.
pub fn id(id: wire::PointId) -> Result<PointId, Status> {
    match id.point_id_options {
        Some(PointIdOptions::Num(number)) => Ok(number.into()),
        Some(PointIdOptions::Uuid(uuid)) => match uuid.parse() {
            Ok(id @ PointId::Uuid(_)) => Ok(id),
            _ => Err(Status::invalid_argument(format!(
                "Unable to parse UUID: {uuid}"
            ))),
        },
        None => Err(Status::invalid_argument("No ID options provided")),
    }
}

/// Returns an id as a message.
pub fn id_message(id: PointId) -> wire::PointId {
    let options = match id {
        PointId::NumId(number) => PointIdOptions::Num(number),
        PointId::Uuid(uuid) => PointIdOptions::Uuid(uuid.to_string()),
    };
    wire::PointId {
        point_id_options: Some(options),
    }
}

/// Converts a point of a message.
///
/// # Errors
/// `INVALID_ARGUMENT` for a missing or invalid id, `UNIMPLEMENTED` for anything but one plain vector.
pub fn point(point: wire::PointStruct) -> Result<Point, Status> {
    let payload: serde_json::Map<_, _> = qdrant_client::Payload::from(point.payload).into();
    let Some(VectorsOptions::Vector(given)) =
        point.vectors.and_then(|vectors| vectors.vectors_options)
    else {
        return Err(unknown("points without exactly one unnamed vector"));
    };
    Ok(Point {
        id: id(point
            .id
            .ok_or_else(|| Status::invalid_argument("Empty ID is not allowed"))?)?,
        vector: vector(given)?,
        payload: Some(Payload(payload)),
    })
}

// Clients before 1.16 send the numbers in fields that are deprecated now.
#[expect(deprecated, reason = "older clients use these fields")]
fn vector(vector: wire::Vector) -> Result<Vec<f32>, Status> {
    match vector.vector {
        Some(wire::vector::Vector::Dense(dense)) => Ok(dense.data),
        None if vector.indices.is_none() && vector.vectors_count.is_none() => Ok(vector.data),
        _ => Err(unknown("this kind of vector")),
    }
}

fn vectors_message(vector: Option<VectorStructInternal>) -> Option<wire::VectorsOutput> {
    let data = unnamed(vector?)?;
    Some(wire::VectorsOutput {
        vectors_options: Some(wire::vectors_output::VectorsOptions::Vector(
            wire::VectorOutput {
                vector: Some(wire::vector_output::Vector::Dense(wire::DenseVector {
                    data,
                })),
                ..Default::default()
            },
        )),
    })
}

fn payload_message(payload: Option<Payload>) -> HashMap<String, wire::Value> {
    let fields = payload.map(|payload| payload.0).unwrap_or_default();
    fields
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// Returns a fetched point as a message.
pub fn record_message(record: Record) -> wire::RetrievedPoint {
    wire::RetrievedPoint {
        id: Some(id_message(record.id)),
        payload: payload_message(record.payload),
        vectors: vectors_message(record.vector),
        ..Default::default()
    }
}

/// Returns a found point as a message.
pub fn scored_message(point: ScoredPoint) -> wire::ScoredPoint {
    wire::ScoredPoint {
        id: Some(id_message(point.id)),
        payload: payload_message(point.payload),
        score: point.score,
        version: point.version,
        vectors: vectors_message(point.vector),
        ..Default::default()
    }
}

/// Converts the payload selector of a message.
///
/// # Errors
/// `INVALID_ARGUMENT` for a field that is not a valid path.
pub fn with_payload(
    selector: Option<wire::WithPayloadSelector>,
) -> Result<WithPayloadInterface, Status> {
    let selector = match selector.and_then(|selector| selector.selector_options) {
        None => return Ok(nothing()),
        Some(with_payload_selector::SelectorOptions::Enable(all)) => json!(all),
        Some(with_payload_selector::SelectorOptions::Include(fields)) => {
            json!({"include": fields.fields})
        }
        Some(with_payload_selector::SelectorOptions::Exclude(fields)) => {
            json!({"exclude": fields.fields})
        }
    };
    serde_json::from_value(selector).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// Converts the vector selector of a message.
///
/// # Errors
/// `UNIMPLEMENTED` for named vectors.
pub fn with_vector(selector: Option<wire::WithVectorsSelector>) -> Result<WithVector, Status> {
    match selector.and_then(|selector| selector.selector_options) {
        None => Ok(WithVector::default()),
        Some(with_vectors_selector::SelectorOptions::Enable(all)) => Ok(WithVector::Bool(all)),
        Some(with_vectors_selector::SelectorOptions::Include(_)) => Err(unknown("named vectors")),
    }
}

/// Converts the search parameters of a message.
///
/// # Errors
/// `UNIMPLEMENTED` for anything but `exact` and `hnsw_ef`.
pub fn search_params(params: Option<wire::SearchParams>) -> Result<Option<SearchParams>, Status> {
    let Some(params) = params else {
        return Ok(None);
    };
    let known = SearchParams {
        exact: params.exact.unwrap_or_default(),
        hnsw_ef: params.hnsw_ef.map(|ef| ef as usize),
        ..Default::default()
    };
    let rest = wire::SearchParams {
        exact: None,
        hnsw_ef: None,
        ..params
    };
    refuse(
        "parameters of a search besides exact and hnsw_ef",
        rest != wire::SearchParams::default(),
    )?;
    Ok(Some(known))
}
