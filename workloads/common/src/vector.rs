//! The vector store: Qdrant over gRPC. It holds derived data only; the documents live in the database.
//!
//! The collection is checked before it is used. After a failure, operations fail at once until it has been checked
//! again, so that an outage of the store costs requests no time.

mod collection;
mod connection;
mod error;
mod metrics;
mod points;
mod settings;
mod shape;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qdrant_client::qdrant::{
    Condition, DeletePointsBuilder, Filter, PointId, PointStruct, PointsIdsList,
    QueryPointsBuilder, ScrollPointsBuilder, UpsertPointsBuilder,
    collections_client::CollectionsClient, points_client::PointsClient,
};
use tokio::{sync::watch, time::timeout};
use tonic::{Response, Status};

use self::connection::Transport;
pub use self::{
    error::VectorError,
    metrics::VectorMetrics,
    points::{Hit, Query},
    settings::VectorArgs,
    shape::{Shape, Unfit},
};
use crate::{
    backends::{Fault, StoreState},
    telemetry::call::Server,
};
pub use qdrant_client::qdrant::{Distance, r#match::MatchValue};

/// The timeout of an operation.
const OPERATION: Duration = Duration::from_secs(3);
/// The maximum size of a response in bytes, enough for as many payloads as a query may request.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// The vector store of one stack.
#[derive(Debug)]
pub struct VectorStore {
    collections: CollectionsClient<Transport>,
    points: PointsClient<Transport>,
    server: Server,
    collection: String,
    shape: Shape,
    target: Arc<str>,
    state: watch::Sender<Result<(), VectorError>>,
    /// The last time at which the server refused the creation of the collection.
    refusal: Mutex<Option<(Instant, VectorError)>>,
    metrics: VectorMetrics,
}

impl VectorStore {
    /// Returns the store of these settings, or `None` if the vector profile is off. It connects on first use.
    ///
    /// # Errors
    /// Fails if the address or the key is malformed, or if a certificate cannot be read. The message repeats none of
    /// them.
    pub fn new(
        args: &VectorArgs,
        metrics: impl FnOnce() -> VectorMetrics,
    ) -> anyhow::Result<Option<Self>> {
        let Some((url, target)) = args.url().zip(args.target()) else {
            return Ok(None);
        };
        let key = args.vector_api_key.as_deref().filter(|key| !key.is_empty());
        let tls = args.tls_settings().read()?.unwrap_or_default();
        let (transport, server) = connection::transport(&url, key, tls)?;
        let authority = connection::authority(&target)?;
        let (collection, shape) = (
            args.vector_collection.clone(),
            Shape {
                size: args.vector_size,
                distance: args.vector_distance,
            },
        );
        let unknown = VectorError::Unavailable {
            reason: "the collection was not checked yet".to_owned(),
            fault: None,
        };
        Ok(Some(Self {
            collections: CollectionsClient::new(transport.clone()),
            points: PointsClient::new(transport).max_decoding_message_size(MAX_ANSWER),
            server: server.with_collection(&collection),
            target: format!("{authority}/{collection} with {shape}").into(),
            collection,
            shape,
            state: watch::Sender::new(Err(unknown)),
            refusal: Mutex::default(),
            metrics: metrics(),
        }))
    }

    /// Returns the shape of the collection.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the name of the collection.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the text that stands for the server, the collection and its shape, such as
    /// `store:6334/docs with size 4 and distance Cosine`. It contains no credentials.
    pub fn target(&self) -> &Arc<str> {
        &self.target
    }

    /// Returns the last known state of the collection.
    ///
    /// # Errors
    /// Returns the reason why it cannot be used.
    pub fn ready(&self) -> Result<(), VectorError> {
        self.state.borrow().clone()
    }

    /// Returns the state of the store, for the operator.
    pub fn store_state(&self) -> StoreState {
        match &*self.state.borrow() {
            Ok(()) => StoreState::Up,
            Err(VectorError::Unavailable {
                fault: Some(fault), ..
            }) => StoreState::Down(*fault),
            Err(VectorError::OtherCollection { .. }) => StoreState::Down(Fault::OtherCollection),
            Err(VectorError::Unavailable { fault: None, .. } | VectorError::Refused(_)) => {
                StoreState::Unknown
            }
        }
    }

    /// Waits until the collection can be used.
    pub async fn up(&self) {
        let _ = self.state.subscribe().wait_for(Result::is_ok).await;
    }

    /// Waits until the collection cannot be used, or has to be checked again.
    pub async fn down(&self) {
        let _ = self.state.subscribe().wait_for(Result::is_err).await;
    }

    fn set_state(&self, state: Result<(), VectorError>) {
        self.metrics.up.set(state.is_ok().into());
        let _ = self.state.send_replace(state);
    }

    /// Stores or replaces points.
    ///
    /// # Errors
    /// Fails if that is not certain.
    pub async fn upsert(&self, points: Vec<PointStruct>) -> Result<(), VectorError> {
        let request = UpsertPointsBuilder::new(&self.collection, points).wait(true);
        let mut points = self.points.clone();
        self.ask("upsert", points.upsert(request.build()))
            .await
            .map(drop)
    }

    /// Removes points; those that do not exist are ignored.
    ///
    /// # Errors
    /// Fails if that is not certain.
    pub async fn delete(&self, ids: Vec<PointId>) -> Result<(), VectorError> {
        let request = DeletePointsBuilder::new(&self.collection)
            .points(PointsIdsList { ids })
            .wait(true);
        let mut points = self.points.clone();
        self.ask("delete", points.delete(request.build()))
            .await
            .map(drop)
    }

    /// Returns the nearest points, nearest first.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn query(&self, query: Query) -> Result<Vec<Hit>, VectorError> {
        let mut request = QueryPointsBuilder::new(&self.collection)
            .query(query.vector)
            .limit(query.limit)
            .with_payload(query.with_payload);
        if !query.filter.is_empty() {
            let filter = query.filter.into_iter();
            let conditions = filter.map(|(field, value)| Condition::matches(field, value));
            request = request.filter(Filter::must(conditions));
        }
        let mut points = self.points.clone();
        let answer = self.ask("query", points.query(request.build())).await?;
        let hits = answer.result.into_iter();
        Ok(hits
            .filter_map(|point| Hit::new(point, query.with_payload))
            .collect())
    }

    /// Returns the identifiers of at most `at_most` points, and the offset of the next page.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn page(
        &self,
        from: Option<PointId>,
        at_most: u32,
    ) -> Result<(Vec<PointId>, Option<PointId>), VectorError> {
        let mut request = ScrollPointsBuilder::new(&self.collection)
            .limit(at_most)
            .with_payload(false)
            .with_vectors(false);
        if let Some(from) = from {
            request = request.offset(from);
        }
        let mut points = self.points.clone();
        let answer = self.ask("scroll", points.scroll(request.build())).await?;
        let ids = answer.result.into_iter().filter_map(|point| point.id);
        Ok((ids.collect(), answer.next_page_offset))
    }

    /// Runs an operation on a collection that is ready, and marks it as not ready if the store is unavailable.
    async fn ask<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, VectorError> {
        self.ready()?;
        self.call(operation, answer).await.map_err(|status| {
            let error = VectorError::from(status);
            if matches!(error, VectorError::Unavailable { .. }) {
                self.set_state(Err(error.clone()));
            }
            error
        })
    }

    /// Runs a request with a timeout, a span and metrics. Every request to the store uses it.
    async fn call<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        let start = Instant::now();
        let silence = |_| {
            let limit = OPERATION.as_secs();
            Err(Status::deadline_exceeded(format!(
                "no answer within {limit} s"
            )))
        };
        let answer = async { timeout(OPERATION, answer).await.unwrap_or_else(silence) };
        let result = self.server.call(operation, answer).await;
        let error = result.as_ref().err().map(Status::code);
        self.metrics.operation(operation, error, start.elapsed());
        result.map(Response::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        vector: VectorArgs,
    }

    fn store(arguments: &[&str]) -> anyhow::Result<Option<VectorStore>> {
        let arguments = ["program"].iter().chain(arguments);
        VectorStore::new(&Settings::parse_from(arguments).vector, || {
            VectorMetrics::register(&mut prometheus_client::registry::Registry::default())
        })
    }

    #[tokio::test]
    async fn without_a_url_there_is_no_vector_store() {
        assert!(store(&[]).unwrap().is_none());
        assert!(store(&["--vector-url", ""]).unwrap().is_none());
        let store = store(&["--vector-url", "https://store:6334"])
            .unwrap()
            .unwrap();
        assert_eq!((store.shape.size, store.collection.as_str()), (4, "docs"));
        assert!(store.ready().is_err(), "the collection was not checked yet");
        assert_eq!(store.store_state(), StoreState::Unknown);
    }

    #[tokio::test]
    async fn a_target_is_a_server_with_a_collection_of_a_shape_and_no_credential() {
        let target = |arguments: &[&str]| store(arguments).unwrap().unwrap().target().clone();
        let expected = "store:6334/docs with size 4 and distance Cosine";
        for same in [
            &["--vector-url=http://store:6334"][..],
            &["--vector-url=https://store:6334"],
            &["--vector-url=http://user:hunter2@store:6334/"],
            &["--vector-host=store", "--vector-api-key=hunter2"],
            // A program that reaches the same store through a proxy.
            &[
                "--vector-url=http://127.0.0.1:1",
                "--vector-target=https://user:hunter2@store:6334",
            ],
            &["--vector-host=proxy", "--vector-target=store"],
        ] {
            assert_eq!(&*target(same), expected);
        }
        let url = "--vector-url=http://store:6334";
        for other in [
            &["--vector-url=http://store:6335"][..],
            &["--vector-host=other"],
            &["--vector-host=store", "--vector-target=other"],
            &[url, "--vector-collection=news"],
            &[url, "--vector-size=5"],
            &[url, "--vector-distance=Dot"],
        ] {
            assert_ne!(&*target(other), expected, "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_malformed_address_or_key_is_refused_without_being_repeated() {
        let url = ["--vector-url", "http://store:6334"];
        for (arguments, name) in [
            (vec!["--vector-url", "secret"], "VECTOR_URL"),
            (vec!["--vector-url", "ftp://secret"], "VECTOR_URL"),
            (vec!["--vector-url", "http://"], "VECTOR_URL"),
            (
                [&url[..], &["--vector-api-key", "secret\n"]].concat(),
                "VECTOR_API_KEY",
            ),
        ] {
            let message = store(&arguments).unwrap_err().to_string();
            assert!(
                message.contains(name) && !message.contains("secret"),
                "{message}"
            );
        }
    }

    #[tokio::test]
    async fn the_key_is_nowhere_in_what_a_log_could_show() {
        let store = store(&["--vector-url=http://store:6334", "--vector-api-key=hunter2"]);
        assert!(!format!("{store:?}").contains("hunter2"));
    }

    #[test]
    fn sizes_and_distances_have_bounds_and_names() {
        for (flag, value) in [
            ("--vector-size", "0"),
            ("--vector-size", "65537"),
            ("--vector-distance", "Manhattan"),
            ("--vector-distance", "cosine"),
        ] {
            let message = Settings::try_parse_from(["program", flag, value])
                .unwrap_err()
                .to_string();
            assert!(message.contains(flag), "{message}");
        }
        for distance in ["Cosine", "Dot", "Euclid"] {
            assert!(Settings::try_parse_from(["program", "--vector-distance", distance]).is_ok());
        }
    }
}
