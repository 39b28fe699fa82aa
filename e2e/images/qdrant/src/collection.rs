//! One collection: a shard of the engine with one unnamed vector per point.

use std::{
    num::NonZeroU64,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;
use qdrant_edge::{
    CountRequest, CreateIndex as EngineIndex, DEFAULT_VECTOR_NAME, EdgeConfig, EdgeShard,
    EdgeVectorParams, FieldIndexOperations, JsonPath, NamedQuery, PointId, PointInsertOperations,
    PointOperations, PointStructPersisted, QueryEnum, QueryRequest, Record, ScoringQuery,
    ScrollRequest, UpdateOperation, VectorStructPersisted, external::ordered_float::OrderedFloat,
};

use crate::{
    error::Error,
    model::{CollectionInfo, CreateIndex, Fetch, Found, Nearest, Point, Selection, VectorParams},
};

/// A collection and its files.
pub struct Collection {
    name: String,
    vectors: VectorParams,
    operations: AtomicU64,
    // None once it is closed. Whoever changes it holds it alone: the engine flushes only what nobody reads.
    shard: RwLock<Option<EdgeShard>>,
}

impl Collection {
    /// Writes the files of an empty collection.
    ///
    /// # Errors
    /// What the engine says.
    pub fn create(path: &Path, vectors: VectorParams) -> Result<(), Error> {
        let size = usize::try_from(vectors.size.get())
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let config = EdgeConfig::builder()
            .vector(
                DEFAULT_VECTOR_NAME,
                EdgeVectorParams::builder(size, vectors.distance).build(),
            )
            .build();
        EdgeShard::new(path, config)?;
        Ok(())
    }

    /// Opens the files of a collection.
    ///
    /// # Errors
    /// What the engine says, and when its vectors are not of this program's making.
    pub fn load(name: &str, path: &Path) -> Result<Self, Error> {
        let shard = EdgeShard::load(path, None)?;
        let vectors = shard
            .config()
            .vectors
            .get(DEFAULT_VECTOR_NAME)
            .and_then(|params| {
                let size = NonZeroU64::new(params.size as u64)?;
                Some(VectorParams {
                    size,
                    distance: params.distance,
                })
            })
            .ok_or_else(|| {
                Error::Internal(format!("{} is no collection of one vector", path.display()))
            })?;
        Ok(Self {
            name: name.to_owned(),
            vectors,
            operations: AtomicU64::new(0),
            shard: RwLock::new(Some(shard)),
        })
    }

    /// Waits for what is under way and closes the files.
    pub fn close(&self) {
        // Dropping the shard flushes it.
        drop(self.shard.write().take());
    }

    /// # Errors
    /// [`Error::NoCollection`] once it is deleted; so with all that follow.
    pub fn info(&self) -> Result<CollectionInfo, Error> {
        self.read(|shard| {
            let info = shard.info();
            Ok(CollectionInfo {
                vectors: self.vectors,
                points: info.points_count,
                segments: info.segments_count,
                indexes: info.payload_schema,
            })
        })
    }

    /// Stores points, all of them or none, and gives the number of the operation.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a vector of another length, [`Error::BadRequest`] for no points.
    pub fn upsert(&self, points: Vec<Point>) -> Result<u64, Error> {
        if points.is_empty() {
            return Err(Error::BadRequest("Empty update request".to_owned()));
        }
        for point in &points {
            self.check_size(&point.vector)?;
        }
        let points: Vec<_> = points
            .into_iter()
            .map(|point| PointStructPersisted {
                id: point.id,
                vector: VectorStructPersisted::Single(point.vector),
                payload: point.payload,
            })
            .collect();
        self.update(UpdateOperation::PointOperation(
            PointOperations::UpsertPoints(PointInsertOperations::PointsList(points)),
        ))
    }

    /// # Errors
    /// What the engine says.
    pub fn delete(&self, selection: Selection) -> Result<u64, Error> {
        self.update(UpdateOperation::PointOperation(match selection {
            Selection::Points { points } => PointOperations::DeletePoints { ids: points },
            Selection::Filter { filter } => PointOperations::DeletePointsByFilter(filter),
        }))
    }

    /// # Errors
    /// What the engine says.
    pub fn create_index(&self, index: CreateIndex) -> Result<u64, Error> {
        self.update(UpdateOperation::FieldIndexOperation(
            FieldIndexOperations::CreateIndex(EngineIndex {
                field_name: index.field_name,
                field_schema: Some(index.field_schema),
            }),
        ))
    }

    /// # Errors
    /// What the engine says.
    pub fn delete_index(&self, field: JsonPath) -> Result<u64, Error> {
        self.update(UpdateOperation::FieldIndexOperation(
            FieldIndexOperations::DeleteIndex(field),
        ))
    }

    /// # Errors
    /// What the engine says.
    pub fn count(&self, request: CountRequest) -> Result<usize, Error> {
        self.read(|shard| Ok(shard.count(request)?))
    }

    /// A page of points by their ids, and the id that the next page begins with.
    ///
    /// # Errors
    /// What the engine says.
    pub fn scroll(&self, request: ScrollRequest) -> Result<(Vec<Record>, Option<PointId>), Error> {
        self.read(|shard| Ok(shard.scroll(request)?))
    }

    /// # Errors
    /// What the engine says.
    pub fn fetch(&self, request: Fetch) -> Result<Vec<Record>, Error> {
        self.read(|shard| {
            Ok(shard.retrieve(
                &request.ids,
                Some(request.with_payload),
                Some(request.with_vector),
            )?)
        })
    }

    /// # Errors
    /// [`Error::BadInput`] for a vector of another length.
    pub fn nearest(&self, request: Nearest) -> Result<Found, Error> {
        if let Some(vector) = &request.vector {
            self.check_size(vector)?;
        }
        let offset = request.offset;
        let request = QueryRequest {
            prefetches: Vec::new(),
            query: request.vector.map(|vector| {
                ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery::default_dense(vector)))
            }),
            filter: request.filter,
            score_threshold: request.score_threshold.map(OrderedFloat),
            // A shard answers from the beginning: in the server the collection cuts, over all of its shards.
            limit: request.limit.saturating_add(offset),
            offset: 0,
            params: request.params,
            with_vector: request.with_vector,
            with_payload: request.with_payload,
        };
        let mut found = self.read(|shard| Ok(shard.query(request)?))?;
        found.drain(..offset.min(found.len()));
        Ok(found)
    }

    fn check_size(&self, vector: &[f32]) -> Result<(), Error> {
        if vector.len() as u64 == self.vectors.size.get() {
            return Ok(());
        }
        Err(Error::BadInput(format!(
            "Vector dimension error: expected dim: {}, got {}",
            self.vectors.size,
            vector.len()
        )))
    }

    fn read<T>(&self, ask: impl FnOnce(&EdgeShard) -> Result<T, Error>) -> Result<T, Error> {
        ask(self.shard.read().as_ref().ok_or_else(|| self.deleted())?)
    }

    // The engine reads its log of changes only together with what was flushed, so every change is flushed: what was
    // answered survives even a process that is killed.
    fn update(&self, operation: UpdateOperation) -> Result<u64, Error> {
        let shard = self.shard.write();
        let shard = shard.as_ref().ok_or_else(|| self.deleted())?;
        shard.update(operation)?;
        shard.flush();
        Ok(self.operations.fetch_add(1, Ordering::Relaxed))
    }

    fn deleted(&self) -> Error {
        Error::NoCollection(self.name.clone())
    }
}
