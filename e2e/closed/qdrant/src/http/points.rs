//! Points: storing, fetching and querying them.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use qdrant_edge::{
    CountRequest, Filter, Payload, PointId, Record, ScoredPoint, ScrollRequest, SearchParams,
    WithPayloadInterface, WithVector,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    answer,
    body::{Body, Update},
};
use crate::{
    error::Error,
    model::{Fetch, Nearest, Selection, Upsert, at_least_one, nothing, unnamed},
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

/// `POST /collections/{name}/points/delete`
pub async fn delete(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Query(update): Query<Update>,
    Body(request): Body<Selection>,
) -> Response {
    answer(move || {
        store
            .collection(&name)?
            .delete(request)
            .map(|number| update.answer(number))
    })
    .await
}

/// `GET /collections/{name}/points/{id}`
pub async fn one(
    State(store): State<Arc<Store>>,
    Path((name, id)): Path<(String, String)>,
) -> Response {
    answer(move || {
        let id: PointId = id
            .parse()
            .map_err(|()| Error::BadInput(format!("Can not recognize \"{id}\" as point id")))?;
        let whole = Fetch {
            ids: vec![id],
            with_payload: WithPayloadInterface::Bool(true),
            with_vector: WithVector::Bool(true),
        };
        let found = store.collection(&name)?.fetch(whole)?.pop();
        found
            .map(Shown::from)
            .ok_or_else(|| Error::NoPoint(format!("Point with id {id} does not exists!")))
    })
    .await
}

/// `POST /collections/{name}/points`
pub async fn fetch(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<Fetch>,
) -> Response {
    answer(move || Ok(shown(store.collection(&name)?.fetch(request)?))).await
}

/// `POST /collections/{name}/points/count`
pub async fn count(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<CountRequest>,
) -> Response {
    answer(move || Ok(json!({"count": store.collection(&name)?.count(request)?}))).await
}

/// `POST /collections/{name}/points/scroll`
pub async fn scroll(
    State(store): State<Arc<Store>>,
    Path(name): Path<String>,
    Body(request): Body<ScrollRequest>,
) -> Response {
    answer(move || {
        at_least_one("limit", request.limit)?;
        let (records, next) = store.collection(&name)?.scroll(request)?;
        Ok(Page {
            points: shown(records),
            next_page_offset: next,
        })
    })
    .await
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
    Ok(shown(found))
}

/// The body of a query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    query: Option<Vector>,
    #[serde(default = "ten")]
    limit: usize,
    filter: Option<Filter>,
    params: Option<SearchParams>,
    score_threshold: Option<f32>,
    #[serde(default)]
    offset: usize,
    #[serde(default = "nothing")]
    with_payload: WithPayloadInterface,
    #[serde(default, alias = "with_vectors")]
    with_vector: WithVector,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vector {
    Plain(Vec<f32>),
    Named { nearest: Vec<f32> },
}

/// The body of a search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searched {
    vector: Vec<f32>,
    #[serde(alias = "top")]
    limit: usize,
    filter: Option<Filter>,
    params: Option<SearchParams>,
    score_threshold: Option<f32>,
    #[serde(default)]
    offset: usize,
    #[serde(default = "nothing")]
    with_payload: WithPayloadInterface,
    #[serde(default, alias = "with_vectors")]
    with_vector: WithVector,
}

fn ten() -> usize {
    10
}

impl From<Asked> for Nearest {
    fn from(asked: Asked) -> Self {
        Self {
            vector: asked
                .query
                .map(|(Vector::Plain(vector) | Vector::Named { nearest: vector })| vector),
            filter: asked.filter,
            params: asked.params,
            score_threshold: asked.score_threshold,
            limit: asked.limit,
            offset: asked.offset,
            with_payload: asked.with_payload,
            with_vector: asked.with_vector,
        }
    }
}

impl From<Searched> for Nearest {
    fn from(searched: Searched) -> Self {
        Self {
            vector: Some(searched.vector),
            filter: searched.filter,
            params: searched.params,
            score_threshold: searched.score_threshold,
            limit: searched.limit,
            offset: searched.offset,
            with_payload: searched.with_payload,
            with_vector: searched.with_vector,
        }
    }
}

#[derive(Serialize)]
struct Page {
    points: Vec<Shown>,
    next_page_offset: Option<PointId>,
}

#[derive(Serialize)]
struct Answered {
    points: Vec<Shown>,
}

/// A point in an answer.
#[derive(Serialize)]
struct Shown {
    id: PointId,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Vec<f32>>,
}

fn shown<T>(points: Vec<T>) -> Vec<Shown>
where
    Shown: From<T>,
{
    points.into_iter().map(Shown::from).collect()
}

impl From<Record> for Shown {
    fn from(record: Record) -> Self {
        Self {
            id: record.id,
            version: None,
            score: None,
            payload: record.payload,
            vector: record.vector.and_then(unnamed),
        }
    }
}

impl From<ScoredPoint> for Shown {
    fn from(point: ScoredPoint) -> Self {
        Self {
            id: point.id,
            version: Some(point.version),
            score: Some(point.score),
            payload: point.payload,
            vector: point.vector.and_then(unnamed),
        }
    }
}
