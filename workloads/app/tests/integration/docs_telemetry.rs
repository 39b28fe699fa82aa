//! Traces of documents: calls to the vector store, and publications without a request.

use serde_json::{Value, json};
use shortener_common::queue::job::trace_of;
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    otlp::Sink,
    proxy::{Path, Proxy},
    vector::{Collection, url_at},
};
use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};

use crate::{
    client::{json_bytes, post_bytes, send},
    docs::{is_up, query},
    support::App,
    telemetry::{assert_attributes, assert_call, exporting, trace},
};

/// Starts an app that exports, with a store and an optional broker.
async fn exporting_at(
    database: &PgConnectOptions,
    endpoint: String,
    (collection, url): (&Collection, String),
    broker: Option<&Broker>,
) -> App {
    let app = exporting(database, endpoint, |config| {
        config.vector.vector_url = Some(url);
        config.vector.vector_api_key = Some(collection.key.clone());
        config.vector.vector_collection.clone_from(&collection.name);
        config.queue.queue_url = broker.map(Broker::url);
    })
    .await;
    is_up(&app, 1).await;
    app
}

/// Returns the name of a span of the store.
fn call_of(operation: &str, collection: &Collection) -> String {
    format!("{operation} {}", collection.name)
}

#[tokio::test]
async fn the_vector_store_s_part_in_a_request_is_a_span_of_its_own() {
    let database = TestDatabase::new().await;
    let (collection, (sink, endpoint)) = (Collection::default(), Sink::start().await);
    let store = (&collection, collection.url());
    let app = exporting_at(&database, endpoint, store, None).await;
    let port = collection.url().rsplit(':').next().unwrap().parse();
    let port: u16 = port.unwrap();
    let about = [("db.collection.name", json!(collection.name))];

    let (written, header) = trace(1);
    let document = br#"{"vector":[1,0,0,0],"payload":{"title":"hidden"}}"#;
    let put = json_bytes("PUT", "/docs/7", &header, document);
    assert_eq!(send(app.public, put).await.status, 201);
    let request = sink.span(&written, "PUT /docs/{id}").await;
    let upsert = sink.span(&written, &call_of("upsert", &collection)).await;
    assert_call(&upsert, &request, "qdrant", port);
    assert_attributes(&upsert, &about);
    for name in ["INSERT documents", "SELECT documents", "UPDATE documents"] {
        let statement = sink.span(&written, name).await;
        assert_call(&statement, &request, "postgresql", database.get_port());
    }

    let (asked, header) = trace(2);
    let question = br#"{"vector":[1,0,0,0],"limit":1}"#;
    let question = post_bytes("/docs/query", &header, question);
    let answer = send(app.public, question).await;
    assert_eq!(answer.json()["result"][0]["id"], 7, "{answer:?}");
    let request = sink.span(&asked, "POST /docs/query").await;
    let call = sink.span(&asked, &call_of("query", &collection)).await;
    assert_call(&call, &request, "qdrant", port);
    assert_attributes(&call, &about);
    assert_eq!(sink.spans(&asked).len(), 2, "the database is not read");
    let everything = sink.everything();
    for secret in [&collection.key, "hidden"] {
        assert!(!everything.contains(secret), "{everything}");
    }
}

#[tokio::test]
async fn a_vector_store_that_fails_is_an_error_of_its_span_and_of_the_request_s() {
    let database = TestDatabase::new().await;
    let (collection, (sink, endpoint)) = (Collection::default(), Sink::start().await);
    let proxy = Proxy::before(collection.address()).await;
    let store = (&collection, url_at(proxy.address));
    let app = exporting_at(&database, endpoint, store, None).await;
    proxy.set(Path::Refused);
    let failed = query(&app, json!({"vector": [1, 0, 0, 0]})).await;
    let problem = failed.problem(503, "vector-unavailable");
    let trace = problem["trace_id"].as_str().unwrap();
    let request = sink.span(trace, "POST /docs/query").await;
    assert_eq!(request["status"], "ERROR", "{request}");
    assert_attributes(&request, &[("error.type", json!("vector-unavailable"))]);
    let call = sink.span(trace, &call_of("query", &collection)).await;
    assert_eq!(
        (&call["status"], &call["parent_span_id"]),
        (&json!("ERROR"), &request["span_id"]),
        "{call}"
    );
}

#[tokio::test]
async fn a_job_that_no_request_asked_for_begins_its_trace_with_its_publication() {
    let database = TestDatabase::new().await;
    let (collection, broker) = (Collection::default(), Broker::new().await);
    let (sink, endpoint) = Sink::start().await;
    let store = (&collection, collection.url());
    let _app = exporting_at(&database, endpoint, store, Some(&broker)).await;
    let mut connection = database.connect().await.unwrap();
    let left_behind =
        "INSERT INTO documents (id, vector, payload) VALUES (7, ARRAY[0, 0, 0, 1], '{}')";
    connection.execute(left_behind).await.unwrap();
    until("the application to have declared the queue", async || {
        let declared = broker.has("jobs").await;
        declared.then_some(()).ok_or("it has not".to_owned())
    })
    .await;
    let properties = until("a job", async || {
        let message = broker.get("jobs").await;
        message.map(|job| job.properties).ok_or("none".to_owned())
    })
    .await;
    let work = trace_of(&properties);
    let published = sink.span(&work.trace_id.to_string(), "publish jobs").await;
    assert_eq!(published["kind"], "PRODUCER");
    assert_eq!(published["parent_span_id"], "", "{published}");
    let parent = work.parent.map(|parent| Value::from(parent.to_string()));
    assert_eq!(parent.as_ref(), Some(&published["span_id"]));
}
