//! Creation of the collection and its indexes, and comparison of the live collection with the settings.

use std::{
    fmt,
    time::{Duration, Instant},
};

use qdrant_client::qdrant::{
    CollectionInfo, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder, Distance,
    FieldType, GetCollectionInfoRequest, VectorParamsBuilder, vectors_config::Config,
};
use tonic::{Code, Status};

use super::{Shape, VectorError, VectorStore};

/// The time for which a refused creation counts: each attempt makes all documents due.
const REFUSED: Duration = Duration::from_secs(60);

/// The payload fields with an index for filters.
const INDEXED_FIELDS: [&str; 1] = ["category"];

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        text(u64::from(self.size), self.distance).fmt(formatter)
    }
}

fn text(size: u64, distance: Distance) -> String {
    format!("size {size} and distance {}", distance.as_str_name())
}

impl Shape {
    /// Describes the live collection if it differs from this shape.
    fn differs_from(self, live: &CollectionInfo) -> Option<String> {
        let params = live
            .config
            .as_ref()
            .and_then(|config| config.params.as_ref());
        let vectors = params
            .and_then(|params| params.vectors_config.as_ref())
            .and_then(|vectors| vectors.config.as_ref());
        let Some(Config::Params(vectors)) = vectors else {
            return Some("named vectors or no vectors".to_owned());
        };
        let same = vectors.size == u64::from(self.size) && vectors.distance() == self.distance;
        (!same).then(|| text(vectors.size, vectors.distance()))
    }
}

impl VectorStore {
    /// Compares the live collection with the settings, and creates missing indexes. A collection that differs is
    /// left unchanged. Returns true if the collection exists. Updates the state of the store accordingly.
    ///
    /// # Errors
    /// Fails if the store is down, or if the live collection has another shape.
    pub async fn open(&self) -> Result<bool, VectorError> {
        let result = self.look().await;
        // The app creates it.
        let missing = || VectorError::Unavailable {
            reason: "the collection is missing".to_owned(),
            fault: None,
        };
        self.set_state(match &result {
            Ok(true) => Ok(()),
            Ok(false) => Err(missing()),
            Err(error) => Err(error.clone()),
        });
        result
    }

    async fn look(&self) -> Result<bool, VectorError> {
        let request = GetCollectionInfoRequest {
            collection_name: self.collection.clone(),
        };
        let mut collections = self.collections.clone();
        let info = match self.call("get_collection", collections.get(request)).await {
            Ok(info) => info.result.unwrap_or_default(),
            Err(status) if status.code() == Code::NotFound => return Ok(false),
            Err(status) => return Err(status.into()),
        };
        if let Some(found) = self.shape.differs_from(&info) {
            return Err(VectorError::OtherCollection {
                name: self.collection.clone(),
                found,
                expected: self.shape.to_string(),
            });
        }
        for field in INDEXED_FIELDS {
            if !info.payload_schema.contains_key(field) {
                self.create_index(field).await?;
            }
        }
        Ok(true)
    }

    async fn create_index(&self, field: &str) -> Result<(), Status> {
        let index =
            CreateFieldIndexCollectionBuilder::new(&self.collection, field, FieldType::Keyword)
                .wait(true)
                .build();
        let mut points = self.points.clone();
        self.call("create_index", points.create_field_index(index))
            .await
            .map(drop)
    }

    /// Checks that the server has not refused the creation of the collection within the last minute.
    ///
    /// # Errors
    /// Returns the refusal.
    pub fn may_create(&self) -> Result<(), VectorError> {
        match &*self.refusal.lock() {
            Some((at, refusal)) if at.elapsed() < REFUSED => Err(refusal.clone()),
            _ => Ok(()),
        }
    }

    /// Creates the collection. Returns true if it was created now, and false if another process had already created
    /// it.
    ///
    /// # Errors
    /// Fails if the store is down, or refuses it.
    pub async fn create(&self) -> Result<bool, VectorError> {
        let distance = self.shape.distance;
        let vectors = VectorParamsBuilder::new(self.shape.size.into(), distance);
        let collection = CreateCollectionBuilder::new(&self.collection)
            .vectors_config(vectors)
            .build();
        let mut collections = self.collections.clone();
        let created = self.call("create_collection", collections.create(collection));
        match created.await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::AlreadyExists => Ok(false),
            // The answer of versions before 1.10.
            Err(status) if status.message().contains("already exists") => Ok(false),
            Err(status) => {
                let error = VectorError::from(status);
                if error.is_denied() {
                    *self.refusal.lock() = Some((Instant::now(), error.clone()));
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use qdrant_client::qdrant::{
        CollectionConfig, CollectionParams, VectorParams, VectorParamsMap, VectorsConfig,
    };

    use super::*;

    const SHAPE: Shape = Shape {
        size: 4,
        distance: Distance::Cosine,
    };

    fn live(config: Option<Config>) -> CollectionInfo {
        let params = CollectionParams {
            vectors_config: Some(VectorsConfig { config }),
            ..CollectionParams::default()
        };
        CollectionInfo {
            config: Some(CollectionConfig {
                params: Some(params),
                ..CollectionConfig::default()
            }),
            ..CollectionInfo::default()
        }
    }

    fn with_shape(size: u64, distance: Distance) -> CollectionInfo {
        live(Some(Config::Params(VectorParams {
            size,
            distance: distance.into(),
            ..VectorParams::default()
        })))
    }

    #[test]
    fn a_collection_fits_only_with_the_same_size_and_distance() {
        for (live, found) in [
            (with_shape(4, Distance::Cosine), None),
            (
                with_shape(8, Distance::Cosine),
                Some("size 8 and distance Cosine"),
            ),
            (
                with_shape(4, Distance::Dot),
                Some("size 4 and distance Dot"),
            ),
            (
                live(Some(Config::ParamsMap(VectorParamsMap::default()))),
                Some("named vectors or no vectors"),
            ),
            (live(None), Some("named vectors or no vectors")),
            (
                CollectionInfo::default(),
                Some("named vectors or no vectors"),
            ),
        ] {
            assert_eq!(SHAPE.differs_from(&live).as_deref(), found);
        }
    }

    #[test]
    fn the_difference_is_told_with_what_was_expected_and_what_to_do() {
        let error = VectorError::OtherCollection {
            name: "docs".to_owned(),
            found: text(8, Distance::Dot),
            expected: SHAPE.to_string(),
        };
        let message = error.to_string();
        for part in [
            "docs has size 8 and distance Dot",
            "the settings have size 4 and distance Cosine",
            "delete the collection",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
