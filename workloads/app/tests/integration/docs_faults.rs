//! Outages and foreign collections of the vector store: clear errors, links keep working, and nothing is lost.

use std::time::Duration;

use serde_json::{Value, json};
use shortener_app::store::migrate::migrate;
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics,
    proxy::{Path, Proxy},
    vector::{Collection, url_at},
};
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};

use crate::{
    client::{Response, get, shorten},
    docs::{app_at, app_with, delete, fill, is_up, nearest, put, query},
    support::App,
};

fn document() -> Value {
    json!({"vector": [0, 1, 0, 0], "payload": {"category": "late"}})
}

fn question() -> Value {
    json!({"vector": [1, 0, 0, 0], "limit": 100, "with_payload": true})
}

fn unavailable(response: &Response) {
    response.problem(503, "vector-unavailable");
    let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
}

/// Queries until the store is used again; returns the response.
async fn recovered(app: &App) -> Value {
    until("a result", async || {
        let answer = query(app, question()).await;
        (answer.status == 200)
            .then(|| answer.json())
            .ok_or(answer.text())
    })
    .await
}

async fn links_work(app: &App) {
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    assert_eq!(get(app.public, &format!("/{code}")).await.status, 302);
    assert_eq!(
        get(app.internal, "/readyz").await.status,
        200,
        "the replica stays ready, because links work"
    );
}

async fn survives(database: &PgConnectOptions, path: Path) {
    let collection = Collection::default();
    let proxy = Proxy::before(collection.address()).await;
    let app = app_at(database, &collection, url_at(proxy.address)).await;
    is_up(&app, 1).await;
    fill(&app).await;
    let before = recovered(&app).await;
    for _ in 0..2 {
        proxy.set(path);
        unavailable(&query(&app, question()).await);
        unavailable(&put(&app, 1, &document()).await);
        unavailable(&delete(&app, 2).await);
        assert_eq!(
            get(app.public, "/docs/2").await.status,
            200,
            "documents are read from the database"
        );
        links_work(&app).await;
        proxy.set(Path::Open);
        assert_eq!(
            recovered(&app).await,
            before,
            "a rejected write changed the document"
        );
    }
    let replaced = put(&app, 1, &document()).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    let deleted = delete(&app, 2).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text());
}

#[tokio::test]
async fn a_store_that_refuses_connections_stops_documents_and_nothing_else() {
    let database = TestDatabase::new().await;
    survives(&database, Path::Refused).await;
}

#[tokio::test]
async fn a_store_that_fell_silent_stops_documents_and_nothing_else() {
    let database = TestDatabase::new().await;
    survives(&database, Path::Silent).await;
}

#[tokio::test]
async fn the_application_starts_without_a_store_and_finds_it_later() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let proxy = Proxy::before(collection.address()).await;
    proxy.set(Path::Refused);
    let app = app_at(&database, &collection, url_at(proxy.address)).await;
    unavailable(&query(&app, question()).await);
    links_work(&app).await;
    proxy.set(Path::Open);
    assert_eq!(recovered(&app).await, json!({"result": []}));
}

#[tokio::test]
async fn a_store_that_refuses_the_key_is_down_and_nothing_is_shown_of_the_key() {
    let database = TestDatabase::new().await;
    let mut collection = Collection::default();
    collection.key = "another-key".to_owned();
    let app = app_at(&database, &collection, collection.url()).await;
    let answer = query(&app, question()).await;
    unavailable(&answer);
    assert!(!answer.text().contains("another-key"));
    links_work(&app).await;
}

#[tokio::test]
async fn a_collection_of_another_size_or_distance_is_reported_and_never_altered() {
    let database = TestDatabase::new().await;
    for (size, distance) in [(8, "Cosine"), (4, "Dot")] {
        let collection = Collection::default();
        collection.make(size, distance).await;
        let before = collection.info().await;
        let app = app_at(&database, &collection, collection.url()).await;
        for answer in [
            query(&app, question()).await,
            put(&app, 1, &document()).await,
            delete(&app, 1).await,
        ] {
            let problem = answer.problem(503, "vector-collection-mismatch");
            let detail = problem["detail"].as_str().unwrap();
            for part in [
                format!("size {size} and distance {distance}"),
                "size 4 and distance Cosine".to_owned(),
                collection.name.clone(),
            ] {
                assert!(detail.contains(&part), "{part} is missing in {detail}");
            }
            assert!(answer.header("retry-after").is_some());
        }
        links_work(&app).await;
        assert_eq!(collection.info().await, before);
        collection.drop().await;
        assert_eq!(recovered(&app).await, json!({"result": []}));
    }
}

#[tokio::test]
async fn a_collection_that_was_dropped_comes_back_from_the_database_by_itself() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    fill(&app).await;
    let before = recovered(&app).await;
    collection.drop().await;
    until("the same answer", async || {
        let answer = query(&app, question()).await;
        (answer.status == 200 && answer.json() == before)
            .then_some(())
            .ok_or(answer.text())
    })
    .await;
    assert_eq!(collection.count().await, Some(4));
}

/// Waits until the collection has exactly these points.
async fn has_points(collection: &Collection, expected: &[u64]) {
    until("its points", async || {
        let points = collection.nearest(&[1.0, 0.0, 0.0, 0.0]).await;
        let mut ids: Vec<u64> = points.iter().filter_map(|(id, _)| id.as_u64()).collect();
        ids.sort_unstable();
        (ids == expected).then_some(()).ok_or(format!("{ids:?}"))
    })
    .await;
}

#[tokio::test]
async fn another_store_gets_what_pods_with_the_earlier_one_change() {
    let database = TestDatabase::new().await;
    let (before, after) = (Collection::default(), Collection::default());
    let old = app_with(&database, &before).await;
    fill(&old).await;
    let _new = app_with(&database, &after).await;
    let last = i64::MAX.unsigned_abs();
    has_points(&after, &[1, 2, 3, last]).await;
    assert_eq!(put(&old, 5, &document()).await.status, 201);
    assert_eq!(delete(&old, 1).await.status, 204);
    has_points(&before, &[2, 3, 5, last]).await;
    let mut connection = database.connect().await.unwrap();
    hurry(&mut connection).await;
    has_points(&after, &[2, 3, 5, last]).await;
}

#[tokio::test]
async fn an_earlier_store_gets_every_document_once_no_pod_has_the_later_one() {
    let database = TestDatabase::new().await;
    let (before, after) = (Collection::default(), Collection::default());
    let old = app_with(&database, &before).await;
    fill(&old).await;
    let new = app_with(&database, &after).await;
    let last = i64::MAX.unsigned_abs();
    has_points(&after, &[1, 2, 3, last]).await;
    assert_eq!(put(&new, 5, &document()).await.status, 201);
    new.stop().await.unwrap();
    let mut connection = database.connect().await.unwrap();
    let later = "UPDATE vector_target SET seen_at = now() - interval '6 minutes'";
    connection.execute(later).await.unwrap();
    has_points(&before, &[1, 2, 3, 5, last]).await;
}

/// Makes all pending documents due now.
async fn hurry(connection: &mut PgConnection) {
    let hurry = "UPDATE documents SET due_at = now() WHERE due_at IS NOT NULL";
    connection.execute(hurry).await.unwrap();
}

#[tokio::test]
async fn what_a_request_left_half_done_is_swept_up() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    fill(&app).await;
    // The state that requests leave if the store fails meanwhile.
    let mut connection = database.connect().await.unwrap();
    for statement in [
        "INSERT INTO documents (id, vector, payload) SELECT n, ARRAY[0, 0, 0, n], '{\"late\": true}' FROM generate_series(1000, 1250) n",
        "UPDATE documents SET vector = NULL, payload = NULL, indexed_at = NULL, due_at = now() WHERE id = 1",
    ] {
        connection.execute(statement).await.unwrap();
    }
    until("documents and points to be the same", async || {
        let count = collection.count().await;
        (count == Some(3 + 251))
            .then_some(())
            .ok_or(format!("{count:?}"))
    })
    .await;
    until("nothing to be left", async || {
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM documents WHERE indexed_at IS NULL OR due_at IS NOT NULL",
        )
        .fetch_one(&mut database.connect().await.unwrap())
        .await
        .unwrap();
        (left == 0).then_some(()).ok_or(left.to_string())
    })
    .await;
    let ids = nearest(&app, question()).await;
    assert!(!ids.contains(&1), "{ids:?}");
}

#[tokio::test]
async fn with_the_queue_neither_a_dead_store_nor_a_dead_broker_stops_writes() {
    let database = TestDatabase::new().await;
    let (collection, broker) = (Collection::default(), Broker::new().await);
    let store_way = Proxy::before(collection.address()).await;
    let broker_way = Proxy::before(broker.address()).await;
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(broker.url_at(broker_way.address));
        config.vector.vector_url = Some(url_at(store_way.address));
        config.vector.vector_api_key = Some(collection.key.clone());
        config.vector.vector_collection.clone_from(&collection.name);
    })
    .await;
    is_up(&app, 1).await;
    until("a job", async || {
        let stored = put(&app, 1, &document()).await.json();
        (stored["status"] == "enqueued")
            .then_some(())
            .ok_or(stored.to_string())
    })
    .await;

    store_way.set(Path::Refused);
    unavailable(&query(&app, question()).await);
    let stored = put(&app, 2, &document()).await;
    assert_eq!(
        (stored.status, &stored.json()["status"]),
        (202, &json!("enqueued"))
    );
    assert_eq!(delete(&app, 1).await.status, 202);

    while broker.get("jobs").await.is_some() {}
    broker_way.set(Path::Refused);
    let stored = put(&app, 3, &document()).await;
    assert_eq!(stored.status, 202, "{stored:?}");
    broker_way.set(Path::Open);
    store_way.set(Path::Open);
    let mut connection = database.connect().await.unwrap();
    if stored.json()["status"] == "stored" {
        hurry(&mut connection).await;
    }
    until("the job of the third document", async || {
        while let Some(message) = broker.get("jobs").await {
            if message.data == br#"{"id":3,"task":"index"}"# {
                return Ok(());
            }
        }
        Err("none".to_owned())
    })
    .await;
    links_work(&app).await;
}

#[tokio::test]
async fn a_document_comes_to_the_store_although_its_request_was_given_up_on_the_way() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let proxy = Proxy::before(collection.address()).await;
    let app = App::start_with(&database, |config| {
        config.request_timeout = Duration::from_millis(300);
        config.vector.vector_url = Some(url_at(proxy.address));
        config.vector.vector_api_key = Some(collection.key.clone());
        config.vector.vector_collection.clone_from(&collection.name);
    })
    .await;
    is_up(&app, 1).await;
    proxy.set(Path::Held);
    let late = put(&app, 1, &document()).await;
    late.problem(503, "deadline-exceeded");
    // Rules out that another task indexes the document.
    let mut connection = database.connect().await.unwrap();
    let stored = connection.execute("UPDATE documents SET due_at = NULL");
    assert_eq!(stored.await.unwrap().rows_affected(), 1);
    proxy.set(Path::Open);
    until("the document to be indexed", async || {
        let document = get(app.public, "/docs/1").await.json();
        let indexed = document["indexed_at"].is_string();
        indexed.then_some(()).ok_or(document.to_string())
    })
    .await;
    assert_eq!(collection.count().await, Some(1));
}

#[tokio::test]
async fn a_new_collection_is_filled_although_the_broker_was_away_when_it_was_made() {
    let database = TestDatabase::new().await;
    migrate(database.clone(), Duration::from_secs(30))
        .await
        .unwrap();
    let mut connection = database.connect().await.unwrap();
    let insert = "INSERT INTO documents (id, vector, payload) VALUES (1, '{1,0,0,0}', '{}')";
    connection.execute(insert).await.unwrap();
    let (collection, broker) = (Collection::default(), Broker::new().await);
    let way = Proxy::before(broker.address()).await;
    way.set(Path::Refused);
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(broker.url_at(way.address));
        config.vector.vector_url = Some(collection.url());
        config.vector.vector_api_key = Some(collection.key.clone());
        config.vector.vector_collection.clone_from(&collection.name);
    })
    .await;
    is_up(&app, 1).await;
    assert_eq!(collection.count().await, Some(0));
    until("a refusal", async || {
        let text = get(app.internal, "/metrics").await.text();
        let refused = text.contains("error_type=\"away\"");
        refused.then_some(()).ok_or(text)
    })
    .await;
    way.set(Path::Open);
    metrics::wait_for(app.internal, "queue_up 1").await;
    until("the job that fills it", async || {
        while let Some(message) = broker.get("jobs").await {
            if message.data == br#"{"task":"reindex"}"# {
                return Ok(());
            }
        }
        Err("none".to_owned())
    })
    .await;
}
