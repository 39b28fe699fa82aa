//! Points: storing, counting and querying them.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use qdrant_edge::{CountRequest, Filter, Payload, PointId, ScoredPoint};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    answer,
    body::{Body, Update},
};
use crate::{
    error::Error,
    model::{Nearest, Upsert},
    store::Store,
};

/// `PUT /collections/{name}/points`
pub async fn upsert(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Query(update): Query<Update>,
    Body(request): Body<Upsert>,
) -> Response {
    answer(move || {
        store
            .collection(&name)?
            .upsert(request.points)
            .map(|number| update.answer(number))
    })
    .await
}

/// `POST /collections/{name}/points/count`
pub async fn count(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<CountRequest>,
) -> Response {
    answer(move || Ok(json!({"count": store.collection(&name)?.count(request)?}))).await
}

/// `POST /collections/{name}/points/query`
pub async fn query(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<Asked>,
) -> Response {
    answer(move || {
        let points = nearest(&store, &name, request.into())?;
        Ok(Answered { points })
    })
    .await
}

/// `POST /collections/{name}/points/search`
pub async fn search(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<Searched>,
) -> Response {
    answer(move || nearest(&store, &name, request.into())).await
}

fn nearest(store: &Store, name: &str, request: Nearest) -> Result<Vec<Shown>, Error> {
    let found = store.collection(name)?.nearest(request.validated()?)?;
    Ok(found.into_iter().map(Shown::from).collect())
}

/// The body of a query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    query: Vec<f32>,
    #[serde(default = "ten")]
    limit: usize,
    filter: Option<Filter>,
    #[serde(default)]
    with_payload: bool,
}

/// The body of a search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searched {
    vector: Vec<f32>,
    limit: usize,
    filter: Option<Filter>,
    #[serde(default)]
    with_payload: bool,
}

fn ten() -> usize {
    10
}

impl From<Asked> for Nearest {
    fn from(asked: Asked) -> Self {
        Self {
            vector: asked.query,
            filter: asked.filter,
            limit: asked.limit,
            with_payload: asked.with_payload,
        }
    }
}

impl From<Searched> for Nearest {
    fn from(searched: Searched) -> Self {
        Self {
            vector: searched.vector,
            filter: searched.filter,
            limit: searched.limit,
            with_payload: searched.with_payload,
        }
    }
}

#[derive(Serialize)]
struct Answered {
    points: Vec<Shown>,
}

/// A point in an answer.
#[derive(Serialize)]
struct Shown {
    id: PointId,
    version: u64,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
}

impl From<ScoredPoint> for Shown {
    fn from(point: ScoredPoint) -> Self {
        Self {
            id: point.id,
            version: point.version,
            score: point.score,
            payload: point.payload,
        }
    }
}
