//! Documents and queries with a real vector store.

use serde_json::{Value, json};
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics,
    vector::Collection,
};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::{
    client::{Response, get, json_bytes, post, request, send},
    support::App,
};

/// Documents of two categories, each with another direction.
const DOCUMENTS: [(u64, [f32; 4], &str); 4] = [
    (1, [1.0, 0.0, 0.0, 0.0], "howto"),
    (2, [0.8, 0.6, 0.0, 0.0], "news"),
    (3, [0.6, 0.8, 0.0, 0.0], "howto"),
    (9_223_372_036_854_775_807, [-1.0, 0.0, 0.0, 0.0], "news"),
];

/// Starts an app without a queue, and waits until it has found the store.
pub async fn app_with(database: &PgConnectOptions, collection: &Collection) -> App {
    let app = app_at(database, collection, collection.url()).await;
    is_up(&app, 1).await;
    app
}

/// Starts an app with another URL of the store, without waiting for it.
pub async fn app_at(database: &PgConnectOptions, collection: &Collection, url: String) -> App {
    App::start_with(database, |config| {
        config.vector.vector_url = Some(url);
        config.vector.vector_api_key = Some(collection.key.clone());
        config.vector.vector_collection.clone_from(&collection.name);
    })
    .await
}

/// Waits until the app reports this state of the store.
pub async fn is_up(app: &App, up: u8) {
    metrics::wait_for(app.internal, &format!("vector_up {up}")).await;
}

pub async fn put(app: &App, id: u64, document: &Value) -> Response {
    let (path, body) = (format!("/docs/{id}"), document.to_string());
    let request = json_bytes("PUT", &path, "", body.as_bytes());
    send(app.public, request).await
}

pub async fn delete(app: &App, id: u64) -> Response {
    request(app.public, "DELETE", &format!("/docs/{id}"), "").await
}

pub async fn query(app: &App, query: Value) -> Response {
    post(app.public, "/docs/query", query.to_string()).await
}

/// Returns the identifiers of the nearest documents.
pub async fn nearest(app: &App, question: Value) -> Vec<u64> {
    let answer = query(app, question).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let result = answer.json()["result"].as_array().unwrap().clone();
    result
        .iter()
        .map(|hit| hit["id"].as_u64().unwrap())
        .collect()
}

pub async fn fill(app: &App) {
    for (id, vector, category) in DOCUMENTS {
        let document = json!({"vector": vector, "payload": {"title": format!("document {id}"), "category": category}});
        let stored = put(app, id, &document).await;
        assert_eq!(stored.status, 201, "{stored:?}");
        assert_eq!(stored.json()["status"], "indexed");
    }
}

#[tokio::test]
async fn a_document_is_found_as_soon_as_it_is_stored_and_never_after_it_was_deleted() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    fill(&app).await;
    let place = [1, 0, 0, 0];
    let last = DOCUMENTS[3].0;
    assert_eq!(
        nearest(&app, json!({"vector": place})).await,
        [1, 2, 3, last]
    );

    let moved = json!({"vector": [0, 0, 0, 1], "payload": {"title": "moved", "deep": {"a": [1, null, 0.5]}}});
    let replaced = put(&app, 1, &moved).await;
    assert_eq!(replaced.status, 200, "{replaced:?}");
    let found = query(
        &app,
        json!({"vector": [0, 0, 0, 1], "limit": 1, "with_payload": true}),
    );
    let expected = json!({"result": [{"id": 1, "score": 1.0, "payload": moved["payload"]}]});
    assert_eq!(found.await.json(), expected);
    let document = get(app.public, "/docs/1").await.json();
    assert_eq!(document["id"], 1);
    assert_eq!(document["vector"], json!([0.0, 0.0, 0.0, 1.0]));
    assert_eq!(document["payload"], moved["payload"]);
    for time in ["changed_at", "indexed_at"] {
        assert!(
            document[time].as_str().unwrap().ends_with('Z'),
            "{document}"
        );
    }

    assert_eq!(delete(&app, 1).await.status, 204);
    assert_eq!(nearest(&app, json!({"vector": place})).await, [2, 3, last]);
    get(app.public, "/docs/1").await.problem(404, "not-found");
    delete(&app, 1).await.problem(404, "not-found");
    assert_eq!(collection.count().await, Some(3));
    assert_eq!(put(&app, 1, &moved).await.status, 201);
}

#[tokio::test]
async fn a_query_is_bounded_by_its_limit_and_its_filter_and_shows_payloads_only_when_asked() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    fill(&app).await;
    let place = json!([1, 0, 0, 0]);
    for (question, ids) in [
        (json!({"vector": place, "limit": 2}), vec![1, 2]),
        (
            json!({"vector": place, "filter": {"category": "howto"}}),
            vec![1, 3],
        ),
        (
            json!({"vector": place, "filter": {"category": "howto", "title": "document 3"}}),
            vec![3],
        ),
        (
            json!({"vector": place, "filter": {"category": "none"}}),
            vec![],
        ),
        (
            json!({"vector": place, "filter": {"category": true}}),
            vec![],
        ),
    ] {
        assert_eq!(nearest(&app, question.clone()).await, ids, "{question}");
    }
    let plain = query(&app, json!({"vector": place, "limit": 1})).await;
    assert_eq!(plain.json(), json!({"result": [{"id": 1, "score": 1.0}]}));
    let indexed = collection.info().await.unwrap();
    assert_eq!(
        indexed["payload_schema"]["category"]["data_type"], "keyword",
        "{indexed}"
    );
}

#[tokio::test]
async fn queries_that_ask_for_more_payloads_than_are_held_at_once_are_all_answered() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    fill(&app).await;
    let question = json!({"vector": [1, 0, 0, 0], "limit": 100, "with_payload": true});
    let asked = (0..10).map(|_| nearest(&app, question.clone()));
    let expected = [1, 2, 3, DOCUMENTS[3].0];
    for found in futures::future::join_all(asked).await {
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn results_are_ordered_by_the_distance_of_the_collection() {
    let database = TestDatabase::new().await;
    use shortener_common::vector::Distance;
    for (distance, first, scores) in [
        (Distance::Cosine, [1, 2, 3], [1.0, 1.0, 0.0]),
        (Distance::Dot, [2, 1, 3], [3.0, 1.0, 0.0]),
        (Distance::Euclid, [1, 3, 2], [0.0, 1.0, 2.0]),
    ] {
        let collection = Collection::default();
        let app = App::start_with(&database, |config| {
            config.vector.vector_url = Some(collection.url());
            config.vector.vector_api_key = Some(collection.key.clone());
            config.vector.vector_collection.clone_from(&collection.name);
            config.vector.vector_size = 2;
            config.vector.vector_distance = distance;
        })
        .await;
        is_up(&app, 1).await;
        let is_cosine = distance == Distance::Cosine;
        let last = if is_cosine { [0.0, 2.0] } else { [0.0, 0.0] };
        for (id, vector) in [(1, [1.0, 0.0]), (2, [3.0, 0.0]), (3, last)] {
            let stored = put(&app, id, &json!({"vector": vector})).await;
            assert!([200, 201].contains(&stored.status), "{stored:?}");
        }
        // Neither has a score that is a number with every vector that is taken.
        let unfit = if is_cosine { [0.0, 1e-50] } else { [0.0, 1e30] };
        for refused in [
            put(&app, 4, &json!({"vector": unfit})).await,
            query(&app, json!({"vector": unfit})).await,
        ] {
            let problem = refused.problem(400, "invalid-fields");
            assert_eq!(problem["errors"][0]["field"], "vector", "{problem}");
        }
        let answer = query(&app, json!({"vector": [1, 0]})).await.json();
        let result = answer["result"].as_array().unwrap();
        let ids: Vec<_> = result
            .iter()
            .map(|hit| hit["id"].as_u64().unwrap())
            .collect();
        let found: Vec<_> = result
            .iter()
            .map(|hit| hit["score"].as_f64().unwrap())
            .collect();
        // Two documents in one direction are equally near by the cosine.
        if is_cosine {
            assert_eq!(ids[2], 3, "{answer}");
        } else {
            assert_eq!(ids, first, "{answer}");
        }
        assert_eq!(found, scores, "{distance:?}");
    }
}

#[tokio::test]
async fn the_cosine_of_vectors_does_not_depend_on_their_lengths() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    let lengths = [1e-40, 1e-20, 1e-5, 1.0, 1e30];
    for (id, length) in (1..).zip(lengths) {
        let stored = put(&app, id, &json!({"vector": [length, 0, 0, 0]})).await;
        assert_eq!(stored.status, 201, "{stored:?}");
    }
    assert_eq!(
        put(&app, 9, &json!({"vector": [3, 4, 0, 0]})).await.status,
        201
    );
    let kept = get(app.public, "/docs/3").await.json();
    assert_eq!(kept["vector"][0].as_f64().unwrap() as f32, 1e-5);
    for length in lengths {
        let answer = query(&app, json!({"vector": [length, 0, 0, 0]}))
            .await
            .json();
        let result = answer["result"].as_array().unwrap();
        for (place, expected) in [1.0, 1.0, 1.0, 1.0, 1.0, 0.6].into_iter().enumerate() {
            let score = result[place]["score"].as_f64().unwrap();
            assert!((score - expected).abs() < 1e-6, "{length}: {answer}");
        }
    }
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_the_name_of_the_field() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    for vector in [
        json!([1, 2, 3]),
        json!([1, 2, 3, 4, 5]),
        json!([]),
        json!(null),
    ] {
        for refused in [
            put(&app, 1, &json!({"vector": vector})).await,
            query(&app, json!({"vector": vector})).await,
        ] {
            let problem = refused.problem(400, "invalid-fields");
            assert_eq!(problem["errors"][0]["field"], "vector", "{problem}");
        }
    }
    let document = json!({"vector": [1, 2, 3, 4]});
    let too_large = put(&app, 9_223_372_036_854_775_808, &document).await;
    let problem = too_large.problem(400, "invalid-fields");
    assert_eq!(problem["errors"][0]["field"], "id");
    post(app.public, "/docs/query", "[]")
        .await
        .problem(400, "malformed-json");
    let largest = json!({"vector": [1, 2, 3, 4], "payload": {"a": "x".repeat(128 * 1024)}});
    put(&app, 1, &largest).await.problem(413, "body-too-large");
    for (values, status) in [(1000, 201), (1001, 400)] {
        // The list itself counts as one value.
        let full = json!({"vector": [1, 2, 3, 4], "payload": {"a": vec![1; values - 1]}});
        let stored = put(&app, 1, &full).await;
        assert_eq!(stored.status, status, "{stored:?}");
        if status == 400 {
            let problem = stored.problem(400, "invalid-fields");
            assert_eq!(problem["errors"][0]["field"], "payload", "{problem}");
        }
    }
    assert_eq!(delete(&app, 1).await.status, 204);
    for path in ["/docs/x", "/docs/-1", "/docs/01", "/docs/1.0"] {
        get(app.public, path).await.problem(404, "not-found");
        let deleted = request(app.public, "DELETE", path, "").await;
        deleted.problem(404, "not-found");
    }
    get(app.public, "/docs").await.problem(404, "not-found");
    let refused = get(app.public, "/docs/query").await;
    refused.problem(405, "method-not-allowed");
    assert_eq!(refused.header("allow"), Some("POST"));
    let refused = post(app.public, "/docs/1", document.to_string()).await;
    refused.problem(405, "method-not-allowed");
    assert_eq!(collection.count().await, Some(0));
}

#[tokio::test]
async fn nested_hostile_and_strange_payloads_come_back_as_they_were() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    let deepest = (0..16).fold(json!("x"), |inner, _| json!([inner]));
    let payload = json!({"title": "nul \u{0} and \u{1F600}", "": 1, "a.b": {"$ref": "c[]"}, "deep": deepest,
        "numbers": [i64::MIN, i64::MAX, 0.1, -1e300], "none": null, "empty": [{}, []]});
    let stored = put(
        &app,
        0,
        &json!({"vector": [0, 0, 0, 1], "payload": payload}),
    )
    .await;
    assert_eq!(stored.status, 201, "{stored:?}");
    assert_eq!(get(app.public, "/docs/0").await.json()["payload"], payload);
    let question = json!({"vector": [1, 1, 1, 1], "with_payload": true});
    let found = query(&app, question).await.json();
    assert_eq!(found["result"][0]["payload"], payload);
}

#[tokio::test]
async fn without_the_vector_profile_every_route_says_so() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let document = json!({"vector": [1, 2, 3, 4]});
    for answer in [
        put(&app, 1, &document).await,
        get(app.public, "/docs/1").await,
        delete(&app, 1).await,
        query(&app, document).await,
    ] {
        let problem = answer.problem(501, "profile-disabled");
        assert!(problem["detail"].as_str().unwrap().contains("vector"));
    }
    let metrics = get(app.internal, "/metrics").await.text();
    assert!(!metrics.contains("vector_up"), "{metrics}");
}

#[tokio::test]
async fn with_the_queue_a_change_is_a_job_that_continues_the_trace() {
    let database = TestDatabase::new().await;
    let (collection, broker) = (Collection::default(), Broker::new().await);
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(broker.url());
        config.vector.vector_url = Some(collection.url());
        config.vector.vector_api_key = Some(collection.key.clone());
        config.vector.vector_collection.clone_from(&collection.name);
    })
    .await;
    is_up(&app, 1).await;
    let document = json!({"vector": [1, 2, 3, 4], "payload": {"title": "a"}});
    let stored = until("a job", async || {
        let stored = put(&app, 7, &document).await;
        assert_eq!(stored.status, 202, "{stored:?}");
        let enqueued = stored.json()["status"] == "enqueued";
        enqueued.then(|| stored.json()).ok_or(stored.text())
    })
    .await;
    for (answer, id) in [(stored, 7), (delete(&app, 7).await.json(), 7)] {
        let message = broker.get("jobs").await.unwrap();
        let job = shortener_common::queue::job::Job::parse(&message.properties, message.data);
        let job = job.unwrap();
        assert_eq!(
            (job.fields.task.as_str(), job.fields.client_id),
            ("index", Some(id.to_string()))
        );
        assert_eq!(answer["job_id"], job.id.to_string());
        assert_eq!(answer["trace_id"], job.trace.trace_id.to_string());
        assert_eq!(
            (&answer["status"], &answer["id"]),
            (&json!("enqueued"), &json!(7))
        );
        message.acker.ack(Default::default()).await.unwrap();
    }
    delete(&app, 8).await.problem(404, "not-found");
    assert_eq!(
        collection.count().await,
        Some(0),
        "only a worker writes points"
    );
    let due: f64 = sqlx::query_scalar(
        "SELECT extract(epoch FROM due_at - now())::float8 FROM documents WHERE vector IS NULL",
    )
    .fetch_one(&mut database.connect().await.unwrap())
    .await
    .unwrap();
    assert!(
        due > 60.0,
        "the document is due before its job can run: {due} s"
    );
}

#[tokio::test]
async fn operations_on_the_store_are_counted_with_their_duration() {
    let database = TestDatabase::new().await;
    let collection = Collection::default();
    let app = app_with(&database, &collection).await;
    fill(&app).await;
    nearest(&app, json!({"vector": [1, 0, 0, 0]})).await;
    let text = get(app.internal, "/metrics").await.text();
    for (operation, count) in [("upsert", 4), ("query", 1), ("create_collection", 1)] {
        let line = format!(
            "db_client_operation_duration_seconds_count{{db_system_name=\"qdrant\",db_operation_name=\"{operation}\"}} {count}\n"
        );
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }
}
