//! Conversions of ids, points and payloads between messages and the engine's types.

use std::collections::HashMap;

use qdrant_client::qdrant::{
    self as wire, point_id::PointIdOptions, vector::Vector, vectors::VectorsOptions,
    with_payload_selector::SelectorOptions,
};
use qdrant_edge::{Payload, PointId, Record, ScoredPoint};
use tonic::Status;

use super::unknown;
use crate::model::Point;

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
    let Some(VectorsOptions::Vector(wire::Vector {
        vector: Some(Vector::Dense(dense)),
        ..
    })) = point.vectors.and_then(|vectors| vectors.vectors_options)
    else {
        return Err(unknown("points without exactly one unnamed vector"));
    };
    Ok(Point {
        id: id(point
            .id
            .ok_or_else(|| Status::invalid_argument("Empty ID is not allowed"))?)?,
        vector: dense.data,
        payload: Some(Payload(payload)),
    })
}

fn payload_message(payload: Option<Payload>) -> HashMap<String, wire::Value> {
    let fields = payload.map(|payload| payload.0).unwrap_or_default();
    fields
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// Returns a point of a page as a message.
pub fn record_message(record: Record) -> wire::RetrievedPoint {
    wire::RetrievedPoint {
        id: Some(id_message(record.id)),
        payload: payload_message(record.payload),
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
        ..Default::default()
    }
}

/// Converts the payload selector of a message; `None` means the default of the request.
///
/// # Errors
/// `UNIMPLEMENTED` for a part of a payload.
pub fn with_payload(selector: Option<wire::WithPayloadSelector>) -> Result<Option<bool>, Status> {
    match selector.and_then(|selector| selector.selector_options) {
        None => Ok(None),
        Some(SelectorOptions::Enable(all)) => Ok(Some(all)),
        Some(_) => Err(unknown("parts of a payload")),
    }
}
