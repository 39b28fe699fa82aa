//! Conversion of requests about points. Unsupported fields are refused; all other fields (timeouts, ordering,
//! consistency) have no meaning for a single server.

use qdrant_client::qdrant::{
    self as wire, points_selector::PointsSelectorOneOf, query::Variant, vector_input,
};
use qdrant_edge::{CountRequest, JsonPath, PayloadFieldSchema, PayloadSchemaType, ScrollRequest};
use tonic::Status;

use super::{
    convert::{id, point, search_params, with_payload, with_vector},
    filter::filter,
    refuse, unknown,
};
use crate::model::{CreateIndex, Fetch, Nearest, Point, Selection, at_least_one};

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

/// Converts a request to delete points.
pub fn delete(request: wire::DeletePoints) -> Change<Selection> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    let selection = match request
        .points
        .and_then(|selector| selector.points_selector_one_of)
    {
        Some(PointsSelectorOneOf::Points(list)) => Selection::Points {
            points: ids(list.ids)?,
        },
        Some(PointsSelectorOneOf::Filter(given)) => Selection::Filter {
            filter: filter(given)?,
        },
        None => return Err(Status::invalid_argument("PointSelector is missing")),
    };
    Ok((request.collection_name, request.wait, selection))
}

/// Converts a request to create an index.
pub fn create_index(request: wire::CreateFieldIndexCollection) -> Change<CreateIndex> {
    refuse(
        "parameters of an index",
        request.field_index_params.is_some(),
    )?;
    let Some(Ok(kind)) = request.field_type.map(wire::FieldType::try_from) else {
        return Err(Status::invalid_argument(
            "field type is missing or malformed",
        ));
    };
    let index = CreateIndex {
        field_name: path(&request.field_name)?,
        field_schema: PayloadFieldSchema::FieldType(schema(kind)),
    };
    Ok((request.collection_name, request.wait, index))
}

/// Converts a request to delete an index.
pub fn delete_index(request: wire::DeleteFieldIndexCollection) -> Change<JsonPath> {
    Ok((
        request.collection_name,
        request.wait,
        path(&request.field_name)?,
    ))
}

/// Converts a request to fetch points.
pub fn fetch(request: wire::GetPoints) -> Question<Fetch> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    let fetch = Fetch {
        ids: ids(request.ids)?,
        with_payload: with_payload(request.with_payload)?,
        with_vector: with_vector(request.with_vectors)?,
    };
    Ok((request.collection_name, fetch))
}

/// Converts a request to count points.
pub fn count(request: wire::CountPoints) -> Question<CountRequest> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    let count = CountRequest {
        filter: request.filter.map(filter).transpose()?,
        exact: request.exact.unwrap_or(true),
    };
    Ok((request.collection_name, count))
}

/// Converts a request for a page of points.
pub fn scroll(request: wire::ScrollPoints) -> Question<ScrollRequest> {
    refuse("shard keys", request.shard_key_selector.is_some())?;
    refuse("order_by", request.order_by.is_some())?;
    let limit = request.limit.map(|limit| limit as usize);
    at_least_one("limit", limit)?;
    let scroll = ScrollRequest {
        offset: request.offset.map(id).transpose()?,
        limit,
        filter: request.filter.map(filter).transpose()?,
        with_payload: request
            .with_payload
            .map(|selector| with_payload(Some(selector)))
            .transpose()?,
        with_vector: with_vector(request.with_vectors)?,
        order_by: None,
    };
    Ok((request.collection_name, scroll))
}

/// Converts a query for the nearest points, in the newer form.
pub fn query(request: wire::QueryPoints) -> Question<Nearest> {
    refuse("prefetch", !request.prefetch.is_empty())?;
    refuse(
        "named vectors",
        request.using.is_some_and(|name| !name.is_empty()),
    )?;
    refuse("shard keys", request.shard_key_selector.is_some())?;
    refuse("lookup_from", request.lookup_from.is_some())?;
    let nearest = Nearest {
        vector: request.query.map(vector).transpose()?,
        filter: request.filter.map(filter).transpose()?,
        params: search_params(request.params)?,
        score_threshold: request.score_threshold,
        limit: size(request.limit.unwrap_or(10))?,
        offset: size(request.offset.unwrap_or_default())?,
        with_payload: with_payload(request.with_payload)?,
        with_vector: with_vector(request.with_vectors)?,
    };
    Ok((request.collection_name, nearest.validated()?))
}

/// Converts a query for the nearest points, in the older form.
pub fn search(request: wire::SearchPoints) -> Question<Nearest> {
    refuse(
        "named vectors",
        request.vector_name.is_some_and(|name| !name.is_empty()),
    )?;
    refuse("shard keys", request.shard_key_selector.is_some())?;
    refuse("sparse vectors", request.sparse_indices.is_some())?;
    let nearest = Nearest {
        vector: Some(request.vector),
        filter: request.filter.map(filter).transpose()?,
        params: search_params(request.params)?,
        score_threshold: request.score_threshold,
        limit: size(request.limit)?,
        offset: size(request.offset.unwrap_or_default())?,
        with_payload: with_payload(request.with_payload)?,
        with_vector: with_vector(request.with_vectors)?,
    };
    Ok((request.collection_name, nearest.validated()?))
}

fn vector(query: wire::Query) -> Result<Vec<f32>, Status> {
    match query.variant {
        Some(Variant::Nearest(wire::VectorInput {
            variant: Some(vector_input::Variant::Dense(dense)),
        })) => Ok(dense.data),
        _ => Err(unknown(
            "queries for anything but what is nearest to a vector",
        )),
    }
}

fn ids(ids: Vec<wire::PointId>) -> Result<Vec<qdrant_edge::PointId>, Status> {
    ids.into_iter().map(id).collect()
}

fn size(number: u64) -> Result<usize, Status> {
    usize::try_from(number).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn path(field: &str) -> Result<JsonPath, Status> {
    field
        .parse()
        .map_err(|()| Status::invalid_argument(format!("{field:?} is no path of a field")))
}

fn schema(kind: wire::FieldType) -> PayloadSchemaType {
    match kind {
        wire::FieldType::Keyword => PayloadSchemaType::Keyword,
        wire::FieldType::Integer => PayloadSchemaType::Integer,
        wire::FieldType::Float => PayloadSchemaType::Float,
        wire::FieldType::Geo => PayloadSchemaType::Geo,
        wire::FieldType::Text => PayloadSchemaType::Text,
        wire::FieldType::Bool => PayloadSchemaType::Bool,
        wire::FieldType::Datetime => PayloadSchemaType::Datetime,
        wire::FieldType::Uuid => PayloadSchemaType::Uuid,
    }
}
