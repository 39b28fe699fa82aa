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

    /// Deletes points and returns the number of the operation.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn delete(&self, selection: Selection) -> Result<u64, Error> {
        self.update(UpdateOperation::PointOperation(match selection {
            Selection::Points { points } => PointOperations::DeletePoints { ids: points },
            Selection::Filter { filter } => PointOperations::DeletePointsByFilter(filter),
        }))
    }

    /// Creates an index and returns the number of the operation.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn create_index(&self, index: CreateIndex) -> Result<u64, Error> {
        self.update(UpdateOperation::FieldIndexOperation(
            FieldIndexOperations::CreateIndex(EngineIndex {
                field_name: index.field_name,
                field_schema: Some(index.field_schema),
            }),
        ))
    }

    /// Deletes the index of a field and returns the number of the operation.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn delete_index(&self, field: JsonPath) -> Result<u64, Error> {
        self.update(UpdateOperation::FieldIndexOperation(
            FieldIndexOperations::DeleteIndex(field),
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

    /// Returns the points with the requested ids.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn fetch(&self, request: Fetch) -> Result<Vec<Record>, Error> {
        self.read(|shard| {
            Ok(shard.retrieve(
                &request.ids,
                Some(request.with_payload),
                Some(request.with_vector),
            )?)
        })
    }

    /// Returns the points nearest to a vector.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a vector of another length, or an error of the engine.
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
            // A shard ignores the offset: in the real server the collection applies it over all of its shards.
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
