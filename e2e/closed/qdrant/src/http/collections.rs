//! Collections.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use serde_json::{Value, json};

use super::{answer, body::Body};
use crate::{
    model::{CollectionInfo, CreateCollection},
    store::Store,
};

/// `GET /collections/{name}`
pub async fn info(State(store): State<Arc<Store>>, Path(name): Path<String>) -> Response {
    answer(move || Ok(described(&store.collection(&name)?.info()?))).await
}

/// `PUT /collections/{name}`
pub async fn create(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<CreateCollection>,
) -> Response {
    answer(move || store.create(&name, request.validated()?).map(|()| true)).await
}

/// `DELETE /collections/{name}`
pub async fn delete(State(store): State<Arc<Store>>, Path(name): Path<String>) -> Response {
    answer(move || store.delete(&name)).await
}

fn described(info: &CollectionInfo) -> Value {
    json!({
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": 0,
        "points_count": info.points,
        "segments_count": info.segments,
        "config": {"params": {
            "vectors": info.vectors,
            "shard_number": 1,
            "replication_factor": 1,
            "write_consistency_factor": 1,
            "on_disk_payload": true,
        }},
        "payload_schema": info.indexes,
    })
}
