//! The gRPC service of points.

use std::{future::Future, sync::Arc};

use qdrant_client::qdrant as wire;
use tonic::Request;

use super::{
    Answer, answer,
    convert::{id_message, record_message, scored_message},
    requests, unknown_methods,
};
use crate::{collection::Collection, error::Error, store::Store};

/// The service.
pub struct Points(pub Arc<Store>);

impl Points {
    async fn update(
        &self,
        name: String,
        wait: Option<bool>,
        change: impl FnOnce(&Collection) -> Result<u64, Error> + Send + 'static,
    ) -> Answer<wire::PointsOperationResponse> {
        let store = Arc::clone(&self.0);
        // Changes are always applied at once; only the answer differs.
        let status = match wait {
            Some(true) => wire::UpdateStatus::Completed,
            _ => wire::UpdateStatus::Acknowledged,
        };
        answer(
            move || change(&*store.collection(&name)?),
            |number, time| wire::PointsOperationResponse {
                result: Some(wire::UpdateResult {
                    operation_id: Some(number),
                    status: status.into(),
                }),
                time,
                usage: None,
            },
        )
        .await
    }

    async fn read<T, M>(
        &self,
        name: String,
        ask: impl FnOnce(&Collection) -> Result<T, Error> + Send + 'static,
        wrap: impl FnOnce(T, f64) -> M,
    ) -> Answer<M>
    where
        T: Send + 'static,
    {
        let store = Arc::clone(&self.0);
        answer(move || ask(&*store.collection(&name)?), wrap).await
    }
}

#[tonic::async_trait]
impl wire::points_server::Points for Points {
    async fn upsert(
        &self,
        request: Request<wire::UpsertPoints>,
    ) -> Answer<wire::PointsOperationResponse> {
        let (name, wait, points) = requests::upsert(request.into_inner())?;
        self.update(name, wait, |collection| collection.upsert(points))
            .await
    }

    async fn delete(
        &self,
        request: Request<wire::DeletePoints>,
    ) -> Answer<wire::PointsOperationResponse> {
        let (name, wait, selection) = requests::delete(request.into_inner())?;
        self.update(name, wait, |collection| collection.delete(selection))
            .await
    }

    async fn create_field_index(
        &self,
        request: Request<wire::CreateFieldIndexCollection>,
    ) -> Answer<wire::PointsOperationResponse> {
        let (name, wait, index) = requests::create_index(request.into_inner())?;
        self.update(name, wait, |collection| collection.create_index(index))
            .await
    }

    async fn delete_field_index(
        &self,
        request: Request<wire::DeleteFieldIndexCollection>,
    ) -> Answer<wire::PointsOperationResponse> {
        let (name, wait, field) = requests::delete_index(request.into_inner())?;
        self.update(name, wait, |collection| collection.delete_index(field))
            .await
    }

    async fn get(&self, request: Request<wire::GetPoints>) -> Answer<wire::GetResponse> {
        let (name, fetch) = requests::fetch(request.into_inner())?;
        let fetch = |collection: &Collection| collection.fetch(fetch);
        self.read(name, fetch, |records, time| wire::GetResponse {
            result: records.into_iter().map(record_message).collect(),
            time,
            usage: None,
        })
        .await
    }

    async fn count(&self, request: Request<wire::CountPoints>) -> Answer<wire::CountResponse> {
        let (name, count) = requests::count(request.into_inner())?;
        let count = |collection: &Collection| collection.count(count);
        self.read(name, count, |count, time| wire::CountResponse {
            result: Some(wire::CountResult {
                count: count as u64,
            }),
            time,
            usage: None,
        })
        .await
    }

    async fn scroll(&self, request: Request<wire::ScrollPoints>) -> Answer<wire::ScrollResponse> {
        let (name, scroll) = requests::scroll(request.into_inner())?;
        let scroll = |collection: &Collection| collection.scroll(scroll);
        self.read(name, scroll, |(records, next), time| wire::ScrollResponse {
            next_page_offset: next.map(id_message),
            result: records.into_iter().map(record_message).collect(),
            time,
            usage: None,
        })
        .await
    }

    async fn query(&self, request: Request<wire::QueryPoints>) -> Answer<wire::QueryResponse> {
        let (name, nearest) = requests::query(request.into_inner())?;
        let nearest = |collection: &Collection| collection.nearest(nearest);
        self.read(name, nearest, |found, time| wire::QueryResponse {
            result: found.into_iter().map(scored_message).collect(),
            time,
            usage: None,
        })
        .await
    }

    async fn search(&self, request: Request<wire::SearchPoints>) -> Answer<wire::SearchResponse> {
        let (name, nearest) = requests::search(request.into_inner())?;
        let nearest = |collection: &Collection| collection.nearest(nearest);
        self.read(name, nearest, |found, time| wire::SearchResponse {
            result: found.into_iter().map(scored_message).collect(),
            time,
            usage: None,
        })
        .await
    }

    unknown_methods! {
        update_vectors(wire::UpdatePointVectors) -> wire::PointsOperationResponse;
        delete_vectors(wire::DeletePointVectors) -> wire::PointsOperationResponse;
        set_payload(wire::SetPayloadPoints) -> wire::PointsOperationResponse;
        overwrite_payload(wire::SetPayloadPoints) -> wire::PointsOperationResponse;
        delete_payload(wire::DeletePayloadPoints) -> wire::PointsOperationResponse;
        clear_payload(wire::ClearPayloadPoints) -> wire::PointsOperationResponse;
        create_vector_name(wire::CreateVectorNameRequest) -> wire::PointsOperationResponse;
        delete_vector_name(wire::DeleteVectorNameRequest) -> wire::PointsOperationResponse;
        search_batch(wire::SearchBatchPoints) -> wire::SearchBatchResponse;
        search_groups(wire::SearchPointGroups) -> wire::SearchGroupsResponse;
        recommend(wire::RecommendPoints) -> wire::RecommendResponse;
        recommend_batch(wire::RecommendBatchPoints) -> wire::RecommendBatchResponse;
        recommend_groups(wire::RecommendPointGroups) -> wire::RecommendGroupsResponse;
        discover(wire::DiscoverPoints) -> wire::DiscoverResponse;
        discover_batch(wire::DiscoverBatchPoints) -> wire::DiscoverBatchResponse;
        update_batch(wire::UpdateBatchPoints) -> wire::UpdateBatchResponse;
        query_batch(wire::QueryBatchPoints) -> wire::QueryBatchResponse;
        query_groups(wire::QueryPointGroups) -> wire::QueryGroupsResponse;
        facet(wire::FacetCounts) -> wire::FacetResponse;
        search_matrix_pairs(wire::SearchMatrixPoints) -> wire::SearchMatrixPairsResponse;
        search_matrix_offsets(wire::SearchMatrixPoints) -> wire::SearchMatrixOffsetsResponse;
    }
}
