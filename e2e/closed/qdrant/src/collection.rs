//! One collection: a shard of the engine with one unnamed vector per point.

use std::{
    num::NonZeroU64,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;
use qdrant_edge::{
    CountRequest, CreateIndex, DEFAULT_VECTOR_NAME, EdgeConfig, EdgeShard, EdgeVectorParams,
    FieldIndexOperations, JsonPath, NamedQuery, PayloadFieldSchema, PayloadSchemaType, PointId,
    PointInsertOperations, PointOperations, PointStructPersisted, QueryEnum, QueryRequest, Record,
    ScoringQuery, ScrollRequest, UpdateOperation, VectorStructPersisted, WithPayloadInterface,
    WithVector,
};

use crate::{
    error::Error,
    model::{CollectionInfo, Found, Nearest, Point, VectorParams},
};

/// A collection and its files.
pub struct Collection {
    name: String,
    vectors: VectorParams,
    operations: AtomicU64,
    // `None` once it is closed. A change takes the write lock, because the engine flushes only data without a reader.
    shard: RwLock<Option<EdgeShard>>,
}

impl Collection {
    /// Writes the files of an empty collection.
    ///
    /// # Errors
    /// An error of the engine.
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
    /// An error of the engine, or vectors that this program did not create.
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

    /// Waits until no operation is in progress and closes the files.
    pub fn close(&self) {
        // Dropping the shard flushes it.
        drop(self.shard.write().take());
    }

    /// Returns the description of the collection.
    ///
    /// # Errors
    /// [`Error::NoCollection`] once it is deleted, as in all further methods.
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

    /// Stores points, all of them or none, and returns the number of the operation.
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

    /// Deletes points and returns the number of the operation. An id without a point is ignored.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn delete(&self, ids: Vec<PointId>) -> Result<u64, Error> {
        self.update(UpdateOperation::PointOperation(
            PointOperations::DeletePoints { ids },
        ))
    }

    /// Creates an index of keywords on a field of the payload and returns the number of the operation.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn create_index(&self, field_name: JsonPath) -> Result<u64, Error> {
        let keyword = PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword);
        self.update(UpdateOperation::FieldIndexOperation(
            FieldIndexOperations::CreateIndex(CreateIndex {
                field_name,
                field_schema: Some(keyword),
            }),
        ))
    }

    /// Counts points.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn count(&self, request: CountRequest) -> Result<usize, Error> {
        self.read(|shard| Ok(shard.count(request)?))
    }

    /// Returns a page of points in the order of their ids, and the first id of the next page.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn scroll(&self, request: ScrollRequest) -> Result<(Vec<Record>, Option<PointId>), Error> {
        self.read(|shard| Ok(shard.scroll(request)?))
    }

    /// Returns the points nearest to a vector.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a vector of another length, or an error of the engine.
    pub fn nearest(&self, request: Nearest) -> Result<Found, Error> {
        self.check_size(&request.vector)?;
        let vector = NamedQuery::default_dense(request.vector);
        let request = QueryRequest {
            prefetches: Vec::new(),
            query: Some(ScoringQuery::Vector(QueryEnum::Nearest(vector))),
            filter: request.filter,
            score_threshold: None,
            limit: request.limit,
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(false),
            with_payload: WithPayloadInterface::Bool(request.with_payload),
        };
        self.read(|shard| Ok(shard.query(request)?))
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

    // Applies a change and flushes it. The engine replays its log only on top of flushed data, so an acknowledged
    // change survives even a kill of the process only if it is flushed.
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
