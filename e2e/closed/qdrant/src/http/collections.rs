//! Collections and their indexes.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    answer,
    body::{Body, Update},
};
use crate::{
    error::Error,
    model::{CollectionInfo, CreateCollection, CreateIndex},
    store::Store,
};

/// `GET /collections`
pub async fn list(State(store): State<Arc<Store>>) -> Response {
    answer(move || {
        let collections: Vec<_> = store
            .names()
            .into_iter()
            .map(|name| json!({"name": name}))
            .collect();
        Ok(json!({"collections": collections}))
    })
    .await
}

/// `GET /collections/{name}`
pub async fn info(State(store): State<Arc<Store>>, Path(name): Path<String>) -> Response {
    answer(move || Ok(described(&store.collection(&name)?.info()?))).await
}

/// `GET /collections/{name}/exists`
pub async fn exists(State(store): State<Arc<Store>>, Path(name): Path<String>) -> Response {
    answer(move || Ok(json!({"exists": store.collection(&name).is_ok()}))).await
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

/// `PUT /collections/{name}/index`
pub async fn create_index(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Query(update): Query<Update>,
    Body(request): Body<CreateIndex>,
) -> Response {
    answer(move || {
        store
            .collection(&name)?
            .create_index(request)
            .map(|number| update.answer(number))
    })
    .await
}

/// `DELETE /collections/{name}/index/{field}`
pub async fn delete_index(
    State(store): State<Arc<Store>>,
    Path((name, field)): Path<(String, String)>,
    Query(update): Query<Update>,
) -> Response {
    answer(move || {
        let field = field
            .parse()
            .map_err(|()| Error::BadInput(format!("{field:?} is no path of a field")))?;
        store
            .collection(&name)?
            .delete_index(field)
            .map(|number| update.answer(number))
    })
    .await
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
