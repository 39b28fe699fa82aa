//! Conversion of requests about points. Unsupported fields are refused; all other fields (timeouts, ordering,
//! consistency) have no meaning for a single server.

use qdrant_client::qdrant::{
    self as wire, points_selector::PointsSelectorOneOf, query::Variant, vector_input,
    with_vectors_selector::SelectorOptions,
};
use qdrant_edge::{JsonPath, PointId, ScrollRequest, WithPayloadInterface, WithVector};
use tonic::Status;

use super::{
    convert::{id, point, with_payload},
    filter::filter,
    refuse, unknown,
};
use crate::model::{Nearest, Point, at_least_one};

/// A change: the collection, true if the client waits for its completion, and the change itself.
type Change<T> = Result<(String, Option<bool>, T), Status>;
/// A query: the collection, and the query itself.
type Question<T> = Result<(String, T), Status>;

/// Converts a request to store points.
pub fn upsert(request: wire::UpsertPoints) -> Change<Vec<Point>> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    refuse("update_filter", request.update_filter.is_some())?;
    refuse("update_mode", request.update_mode.is_some())?;
    let points = request
        .points
        .into_iter()
        .map(point)
        .collect::<Result<_, _>>()?;
    Ok((request.collection_name, request.wait, points))
}

/// Converts a request to delete points by their ids.
pub fn delete(request: wire::DeletePoints) -> Change<Vec<PointId>> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    let points = match request
        .points
        .and_then(|selector| selector.points_selector_one_of)
    {
        Some(PointsSelectorOneOf::Points(list)) => {
            list.ids.into_iter().map(id).collect::<Result<_, _>>()?
        }
        Some(PointsSelectorOneOf::Filter(_)) => return Err(unknown("deletion by a filter")),
        None => return Err(Status::invalid_argument("PointSelector is missing")),
    };
    Ok((request.collection_name, request.wait, points))
}

/// Converts a request to create an index, and returns its field.
pub fn create_index(request: wire::CreateFieldIndexCollection) -> Change<JsonPath> {
    refuse(
        "indexes besides those on keywords",
        request.field_type != Some(i32::from(wire::FieldType::Keyword)),
    )?;
    refuse(
        "parameters of an index",
        request.field_index_params.is_some(),
    )?;
    let name = request.field_name;
    let field = name
        .parse()
        .map_err(|()| Status::invalid_argument(format!("{name:?} is no path of a field")))?;
    Ok((request.collection_name, request.wait, field))
}

/// Converts a request for a page of points.
pub fn scroll(request: wire::ScrollPoints) -> Question<ScrollRequest> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    refuse("order_by", request.order_by.is_some())?;
    refuse("filters of a page", request.filter.is_some())?;
    let vectors = request
        .with_vectors
        .and_then(|selector| selector.selector_options);
    refuse(
        "vectors in answers",
        vectors.is_some_and(|wanted| wanted != SelectorOptions::Enable(false)),
    )?;
    let limit = request.limit.map(|limit| limit as usize);
    at_least_one("limit", limit)?;
    let scroll = ScrollRequest {
        offset: request.offset.map(id).transpose()?,
        limit,
        filter: None,
        with_payload: with_payload(request.with_payload)?.map(WithPayloadInterface::Bool),
        with_vector: WithVector::Bool(false),
        order_by: None,
    };
    Ok((request.collection_name, scroll))
}

/// Converts a query for the nearest points.
pub fn query(request: wire::QueryPoints) -> Question<Nearest> {
    let name = request.collection_name;
    let nearest = Nearest {
        vector: vector(request.query)?,
        filter: request.filter.map(filter).transpose()?,
        limit: usize::try_from(request.limit.unwrap_or(10))
            .map_err(|error| Status::invalid_argument(error.to_string()))?,
        with_payload: with_payload(request.with_payload)?.unwrap_or_default(),
    };
    let rest = wire::QueryPoints {
        collection_name: String::new(),
        query: None,
        filter: None,
        limit: None,
        with_payload: None,
        timeout: None,
        read_consistency: None,
        ..request
    };
    refuse(
        "queries with more than a vector, a filter, a limit and payloads",
        rest != wire::QueryPoints::default(),
    )?;
    Ok((name, nearest.validated()?))
}

fn vector(query: Option<wire::Query>) -> Result<Vec<f32>, Status> {
    match query.and_then(|query| query.variant) {
        Some(Variant::Nearest(wire::VectorInput {
            variant: Some(vector_input::Variant::Dense(dense)),
        })) => Ok(dense.data),
        _ => Err(unknown(
            "queries for anything but what is nearest to a vector",
        )),
    }
}
