//! The gRPC service of collections.

use std::{collections::HashMap, future::Future, num::NonZeroU64, sync::Arc};

use qdrant_client::qdrant as wire;
use qdrant_edge::{Distance, PayloadIndexInfo, PayloadSchemaType};
use tonic::{Request, Status};

use super::{Answer, answer, refuse, unknown, unknown_methods};
use crate::{
    error::Error,
    model::{CollectionInfo, CreateCollection, VectorParams},
    store::Store,
};

/// The service.
pub struct Collections(pub Arc<Store>);

#[tonic::async_trait]
impl wire::collections_server::Collections for Collections {
    async fn get(
        &self,
        request: Request<wire::GetCollectionInfoRequest>,
    ) -> Answer<wire::GetCollectionInfoResponse> {
        let store = Arc::clone(&self.0);
        let name = request.into_inner().collection_name;
        answer(
            move || store.collection(&name)?.info(),
            |info, time| wire::GetCollectionInfoResponse {
                result: Some(described(&info)),
                time,
            },
        )
        .await
    }

    async fn list(
        &self,
        _: Request<wire::ListCollectionsRequest>,
    ) -> Answer<wire::ListCollectionsResponse> {
        let store = Arc::clone(&self.0);
        answer(
            move || Ok(store.names()),
            |names, time| wire::ListCollectionsResponse {
                collections: names
                    .into_iter()
                    .map(|name| wire::CollectionDescription { name })
                    .collect(),
                time,
            },
        )
        .await
    }

    async fn create(
        &self,
        request: Request<wire::CreateCollection>,
    ) -> Answer<wire::CollectionOperationResponse> {
        let store = Arc::clone(&self.0);
        let (name, vectors) = to_create(request.into_inner())?;
        answer(
            move || store.create(&name, CreateCollection { vectors }.validated()?),
            |(), time| wire::CollectionOperationResponse { result: true, time },
        )
        .await
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteCollection>,
    ) -> Answer<wire::CollectionOperationResponse> {
        let store = Arc::clone(&self.0);
        let name = request.into_inner().collection_name;
        answer(
            move || store.delete(&name),
            |result, time| wire::CollectionOperationResponse { result, time },
        )
        .await
    }

    async fn collection_exists(
        &self,
        request: Request<wire::CollectionExistsRequest>,
    ) -> Answer<wire::CollectionExistsResponse> {
        let store = Arc::clone(&self.0);
        let name = request.into_inner().collection_name;
        answer(
            move || Ok(store.collection(&name).is_ok()),
            |exists, time| wire::CollectionExistsResponse {
                result: Some(wire::CollectionExists { exists }),
                time,
            },
        )
        .await
    }

    unknown_methods! {
        update(wire::UpdateCollection) -> wire::CollectionOperationResponse;
        update_aliases(wire::ChangeAliases) -> wire::CollectionOperationResponse;
        list_collection_aliases(wire::ListCollectionAliasesRequest) -> wire::ListAliasesResponse;
        list_aliases(wire::ListAliasesRequest) -> wire::ListAliasesResponse;
        collection_cluster_info(wire::CollectionClusterInfoRequest) -> wire::CollectionClusterInfoResponse;
        update_collection_cluster_setup(wire::UpdateCollectionClusterSetupRequest)
            -> wire::UpdateCollectionClusterSetupResponse;
        create_shard_key(wire::CreateShardKeyRequest) -> wire::CreateShardKeyResponse;
        delete_shard_key(wire::DeleteShardKeyRequest) -> wire::DeleteShardKeyResponse;
        list_shard_keys(wire::ListShardKeysRequest) -> wire::ListShardKeysResponse;
    }
}

fn to_create(request: wire::CreateCollection) -> Result<(String, VectorParams), Status> {
    let name = request.collection_name;
    let config = request.vectors_config.and_then(|config| config.config);
    let Some(wire::vectors_config::Config::Params(params)) = config else {
        return Err(unknown("collections without exactly one unnamed vector"));
    };
    // All other fields must be unset.
    let bare = wire::VectorParams {
        size: params.size,
        distance: params.distance,
        ..Default::default()
    };
    refuse(
        "parameters of a vector besides its size and distance",
        params != bare,
    )?;
    let rest = wire::CreateCollection {
        vectors_config: None,
        timeout: None,
        collection_name: String::new(),
        ..request
    };
    refuse(
        "settings of a collection besides its vectors",
        rest != wire::CreateCollection::default(),
    )?;
    let size = NonZeroU64::new(params.size).ok_or_else(|| {
        Error::Invalid(
            "vectors_config.config.params.size: value 0 invalid, must be from 1 to 65536"
                .to_owned(),
        )
    })?;
    Ok((
        name,
        VectorParams {
            size,
            distance: distance(params.distance())?,
        },
    ))
}

fn distance(distance: wire::Distance) -> Result<Distance, Status> {
    match distance {
        wire::Distance::Cosine => Ok(Distance::Cosine),
        wire::Distance::Euclid => Ok(Distance::Euclid),
        wire::Distance::Dot => Ok(Distance::Dot),
        wire::Distance::Manhattan => Ok(Distance::Manhattan),
        wire::Distance::UnknownDistance => {
            Err(Status::invalid_argument("distance: unknown distance"))
        }
    }
}

fn described(info: &CollectionInfo) -> wire::CollectionInfo {
    let distance = match info.vectors.distance {
        Distance::Cosine => wire::Distance::Cosine,
        Distance::Euclid => wire::Distance::Euclid,
        Distance::Dot => wire::Distance::Dot,
        Distance::Manhattan => wire::Distance::Manhattan,
    };
    let vectors = wire::VectorParams {
        size: info.vectors.size.get(),
        distance: distance.into(),
        ..Default::default()
    };
    wire::CollectionInfo {
        status: wire::CollectionStatus::Green.into(),
        optimizer_status: Some(wire::OptimizerStatus {
            ok: true,
            error: String::new(),
        }),
        segments_count: info.segments as u64,
        points_count: Some(info.points as u64),
        indexed_vectors_count: Some(0),
        config: Some(wire::CollectionConfig {
            params: Some(wire::CollectionParams {
                shard_number: 1,
                replication_factor: Some(1),
                write_consistency_factor: Some(1),
                vectors_config: Some(wire::VectorsConfig {
                    config: Some(wire::vectors_config::Config::Params(vectors)),
                }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        payload_schema: info
            .indexes
            .iter()
            .map(|(field, index)| (field.to_string(), index_info(index)))
            .collect::<HashMap<_, _>>(),
        ..Default::default()
    }
}

fn index_info(index: &PayloadIndexInfo) -> wire::PayloadSchemaInfo {
    let kind = match index.data_type {
        PayloadSchemaType::Keyword => wire::PayloadSchemaType::Keyword,
        PayloadSchemaType::Integer => wire::PayloadSchemaType::Integer,
        PayloadSchemaType::Float => wire::PayloadSchemaType::Float,
        PayloadSchemaType::Geo => wire::PayloadSchemaType::Geo,
        PayloadSchemaType::Text => wire::PayloadSchemaType::Text,
        PayloadSchemaType::Bool => wire::PayloadSchemaType::Bool,
        PayloadSchemaType::Datetime => wire::PayloadSchemaType::Datetime,
        PayloadSchemaType::Uuid => wire::PayloadSchemaType::Uuid,
    };
    wire::PayloadSchemaInfo {
        data_type: kind.into(),
        params: None,
        points: Some(index.points as u64),
    }
}
