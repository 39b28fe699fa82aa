//! The HTTP API: statuses, messages and documents of the real server.

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use serde_json::{Value, json};

use crate::setup::{Http, KEY};

fn docs() -> Value {
    json!({"points": [
        {"id": 1, "vector": [1, 0, 0, 0], "payload": {"title": "one", "category": "x"}},
        {"id": 2, "vector": [0, 1, 0, 0], "payload": {"title": "two", "category": "y"}},
    ]})
}

async fn with_points() -> Http {
    let http = Http::with_docs("Cosine").await;
    http.result(Method::PUT, "/collections/docs/points?wait=true", docs())
        .await;
    http
}

fn plain(path: &str, key: Option<&str>) -> Request<Body> {
    let request = Request::builder().uri(path);
    let request = match key {
        Some(key) => request.header("api-key", key),
        None => request,
    };
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn probes_and_the_version_need_no_key() {
    let http = Http::new();
    for (path, body) in [
        ("/healthz", json!("healthz check passed")),
        ("/livez", json!("healthz check passed")),
        ("/readyz", json!("all shards are ready")),
        (
            "/",
            json!({"title": "qdrant - vector search engine", "version": qdrant_stand_in::VERSION}),
        ),
    ] {
        assert_eq!(
            http.answer(plain(path, None)).await,
            (StatusCode::OK, body),
            "{path}"
        );
    }
}

#[tokio::test]
async fn everything_else_needs_the_key() {
    let http = Http::new();
    for path in ["/collections", "/collections/docs", "/nothing"] {
        let missing = json!("Must provide an API key or an Authorization bearer token");
        assert_eq!(
            http.answer(plain(path, None)).await,
            (StatusCode::UNAUTHORIZED, missing),
            "{path}"
        );
        let wrong = json!("Invalid API key or JWT");
        assert_eq!(
            http.answer(plain(path, Some("other"))).await,
            (StatusCode::UNAUTHORIZED, wrong),
            "{path}"
        );
    }
    assert_eq!(
        http.answer(plain("/nothing", Some(KEY))).await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_collection_is_made_listed_described_and_deleted() {
    let http = with_points().await;
    assert_eq!(
        http.get("/collections").await.1["result"],
        json!({"collections": [{"name": "docs"}]})
    );
    assert_eq!(
        http.get("/collections/docs/exists").await.1["result"],
        json!({"exists": true})
    );
    let index = json!({"field_name": "category", "field_schema": "keyword"});
    http.result(Method::PUT, "/collections/docs/index?wait=true", index)
        .await;
    let info = http.get("/collections/docs").await.1["result"].take();
    assert_eq!(info["status"], "green");
    assert_eq!(info["points_count"], 2);
    assert_eq!(
        info["config"]["params"]["vectors"],
        json!({"size": 4, "distance": "Cosine"})
    );
    assert_eq!(
        info["payload_schema"],
        json!({"category": {"data_type": "keyword", "points": 2}})
    );

    assert_eq!(http.delete("/collections/docs").await.1["result"], true);
    assert_eq!(http.delete("/collections/docs").await.1["result"], false);
    assert_eq!(
        http.get("/collections/docs/exists").await.1["result"],
        json!({"exists": false})
    );
}

#[tokio::test]
async fn an_answer_has_the_envelope() {
    let (status, body) = Http::with_docs("Dot").await.get("/collections").await;
    assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("ok")));
    assert!(body["time"].as_f64().unwrap() >= 0.0, "{body}");
}

#[tokio::test]
async fn a_collection_that_exists_is_a_conflict() {
    let http = Http::with_docs("Cosine").await;
    let vectors = json!({"vectors": {"size": 4, "distance": "Cosine"}});
    assert_eq!(
        http.refusal(Method::PUT, "/collections/docs", vectors)
            .await,
        (
            409,
            "Wrong input: Collection `docs` already exists!".to_owned()
        )
    );
}

#[tokio::test]
async fn a_collection_that_cannot_be_is_refused() {
    let http = Http::new();
    for (size, status) in [(0, 400), (65_537, 422)] {
        let vectors = json!({"vectors": {"size": size, "distance": "Cosine"}});
        assert_eq!(
            http.refusal(Method::PUT, "/collections/docs", vectors)
                .await
                .0,
            status,
            "{size}"
        );
    }
    let vectors = json!({"vectors": {"size": 4, "distance": "Hamming"}});
    assert_eq!(
        http.refusal(Method::PUT, "/collections/docs", vectors)
            .await
            .0,
        400
    );
    let vectors = json!({"vectors": {"size": 4, "distance": "Dot"}});
    assert_eq!(
        http.refusal(Method::PUT, "/collections/..", vectors)
            .await
            .0,
        422
    );
    assert_eq!(
        http.get("/collections").await.1["result"],
        json!({"collections": []})
    );
}

#[tokio::test]
async fn a_collection_that_is_not_there_is_not_found() {
    let http = Http::new();
    let missing = (
        404,
        "Not found: Collection `docs` doesn't exist!".to_owned(),
    );
    for (method, path, body) in [
        (Method::PUT, "points", docs()),
        (Method::POST, "points/query", json!({"query": [1, 0, 0, 0]})),
        (
            Method::POST,
            "points/search",
            json!({"vector": [1, 0, 0, 0], "limit": 1}),
        ),
        (Method::POST, "points/count", json!({})),
        (Method::POST, "points/delete", json!({"points": [1]})),
        (
            Method::PUT,
            "index",
            json!({"field_name": "category", "field_schema": "keyword"}),
        ),
    ] {
        assert_eq!(
            http.refusal(method, &format!("/collections/docs/{path}"), body)
                .await,
            missing,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_vector_of_another_length_is_refused_and_nothing_of_its_batch_is_stored() {
    let http = Http::with_docs("Cosine").await;
    let wrong = |got: u32| {
        (
            400,
            format!("Wrong input: Vector dimension error: expected dim: 4, got {got}"),
        )
    };
    let points =
        json!({"points": [{"id": 1, "vector": [1, 0, 0, 0]}, {"id": 2, "vector": [1, 0, 0]}]});
    assert_eq!(
        http.refusal(Method::PUT, "/collections/docs/points", points)
            .await,
        wrong(3)
    );
    assert_eq!(
        http.result(Method::POST, "/collections/docs/points/count", json!({}))
            .await["count"],
        0
    );
    let query = json!({"query": [1, 0, 0, 0, 0]});
    assert_eq!(
        http.refusal(Method::POST, "/collections/docs/points/query", query)
            .await,
        wrong(5)
    );
    let search = json!({"vector": [], "limit": 1});
    assert_eq!(
        http.refusal(Method::POST, "/collections/docs/points/search", search)
            .await,
        wrong(0)
    );
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_refused() {
    let http = with_points().await;
    let query = "/collections/docs/points/query";
    for body in [
        json!({"query": "x"}),
        json!({"prefetch": {}}),
        json!({"query": [1, 0, 0, 0], "filter": {"must": 1}}),
    ] {
        let (status, words) = http.refusal(Method::POST, query, body.clone()).await;
        assert!(
            status == 400 && words.starts_with("Format error in JSON body: "),
            "{body}: {words}"
        );
    }
    let limit = json!({"query": [1, 0, 0, 0], "limit": 0});
    assert_eq!(http.refusal(Method::POST, query, limit).await.0, 422);
    let points = json!({"points": []});
    assert_eq!(
        http.refusal(Method::PUT, "/collections/docs/points", points)
            .await
            .0,
        400
    );
    let undeclared = Request::post(query)
        .header("api-key", KEY)
        .body(Body::from("{}"))
        .unwrap();
    let (status, body) = http.answer(undeclared).await;
    assert_eq!(
        (status, &body["status"]["error"]),
        (StatusCode::BAD_REQUEST, &json!("Content type error"))
    );
}

#[tokio::test]
async fn a_search_in_the_form_of_the_specification_is_answered() {
    let http = with_points().await;
    let search = json!({"vector": [0, 2, 0, 0], "limit": 1, "with_payload": true});
    assert_eq!(
        http.result(Method::POST, "/collections/docs/points/search", search)
            .await,
        json!([{"id": 2, "version": 0, "score": 1.0, "payload": {"title": "two", "category": "y"}}])
    );
}

#[tokio::test]
async fn payloads_come_only_when_asked_for() {
    let http = with_points().await;
    let query = json!({"query": {"nearest": [0, 2, 0, 0]}, "limit": 1});
    let result = http
        .result(Method::POST, "/collections/docs/points/query", query)
        .await;
    assert_eq!(
        result,
        json!({"points": [{"id": 2, "version": 0, "score": 1.0}]})
    );
    let query =
        json!({"query": [0, 2, 0, 0], "limit": 1, "with_payload": ["title"], "with_vector": true});
    let result = http
        .result(Method::POST, "/collections/docs/points/query", query)
        .await;
    assert_eq!(result["points"][0]["payload"], json!({"title": "two"}));
    assert_eq!(result["points"][0]["vector"], json!([0.0, 1.0, 0.0, 0.0]));
}

#[tokio::test]
async fn a_point_takes_the_place_of_the_one_before() {
    let http = with_points().await;
    let point = json!({"points": [{"id": 2, "vector": [0, 0, 3, 4], "payload": {"title": "new"}}]});
    let updated = http
        .result(
            Method::PUT,
            "/collections/docs/points?wait=true",
            point.clone(),
        )
        .await;
    assert_eq!(updated["status"], "completed");
    let updated = http
        .result(Method::PUT, "/collections/docs/points", point)
        .await;
    assert_eq!(updated["status"], "acknowledged");
    assert_eq!(
        http.get("/collections/docs/points/2").await.1["result"],
        json!({"id": 2, "payload": {"title": "new"}, "vector": [0.0, 0.0, 0.6, 0.8]})
    );
    assert_eq!(
        http.result(Method::POST, "/collections/docs/points/count", json!({}))
            .await["count"],
        2
    );
}

#[tokio::test]
async fn points_are_fetched_counted_and_scrolled_through() {
    let http = with_points().await;
    let fetch = json!({"ids": [2, 7, 1], "with_payload": true});
    let records = http
        .result(Method::POST, "/collections/docs/points", fetch)
        .await;
    assert_eq!(
        records[0],
        json!({"id": 2, "payload": {"title": "two", "category": "y"}})
    );
    assert_eq!(records.as_array().unwrap().len(), 2);
    let (status, body) = http.get("/collections/docs/points/7").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(
        body["status"]["error"],
        "Not found: Point with id 7 does not exists!"
    );
    let count =
        json!({"filter": {"must": [{"key": "category", "match": {"value": "x"}}]}, "exact": true});
    assert_eq!(
        http.result(Method::POST, "/collections/docs/points/count", count)
            .await,
        json!({"count": 1})
    );
    let scroll = json!({"limit": 1, "with_payload": false});
    let page = http
        .result(Method::POST, "/collections/docs/points/scroll", scroll)
        .await;
    assert_eq!(page, json!({"points": [{"id": 1}], "next_page_offset": 2}));
    let scroll = json!({"limit": 1, "with_payload": false, "offset": 2});
    let page = http
        .result(Method::POST, "/collections/docs/points/scroll", scroll)
        .await;
    assert_eq!(
        page,
        json!({"points": [{"id": 2}], "next_page_offset": null})
    );
}

#[tokio::test]
async fn points_are_deleted_by_id_and_by_filter() {
    let http = with_points().await;
    let filter = json!({"filter": {"must": {"key": "category", "match": {"value": "y"}}}});
    http.result(
        Method::POST,
        "/collections/docs/points/delete?wait=true",
        filter,
    )
    .await;
    let scroll = http
        .result(
            Method::POST,
            "/collections/docs/points/scroll",
            json!({"with_payload": false}),
        )
        .await;
    assert_eq!(scroll["points"], json!([{"id": 1}]));
    http.result(
        Method::POST,
        "/collections/docs/points/delete",
        json!({"points": [1, 7]}),
    )
    .await;
    assert_eq!(
        http.result(Method::POST, "/collections/docs/points/count", json!({}))
            .await["count"],
        0
    );
}

#[tokio::test]
async fn an_index_on_a_field_changes_no_answer() {
    let http = with_points().await;
    let query = json!({"query": [1, 1, 0, 0], "filter": {"must": [{"key": "category", "match": {"any": ["x", "z"]}}]}});
    let before = http
        .result(
            Method::POST,
            "/collections/docs/points/query",
            query.clone(),
        )
        .await;
    let index = json!({"field_name": "category", "field_schema": "keyword"});
    http.result(Method::PUT, "/collections/docs/index?wait=true", index)
        .await;
    assert_eq!(
        http.result(
            Method::POST,
            "/collections/docs/points/query",
            query.clone()
        )
        .await,
        before
    );
    assert_eq!(
        http.delete("/collections/docs/index/category?wait=true")
            .await
            .0,
        StatusCode::OK
    );
    assert_eq!(
        http.result(Method::POST, "/collections/docs/points/query", query)
            .await,
        before
    );
    assert_eq!(before["points"][0]["id"], 1);
}
