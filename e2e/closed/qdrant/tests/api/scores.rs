//! Order and scores, compared with values that the tests compute.

use axum::http::Method;
use serde_json::{Value, json};

use crate::setup::Http;

/// Returns the ids and scores that a query for `[2, 0, 0, 0]` finds among three points.
async fn found(distance: &str, extra: Value) -> Vec<(u64, f64)> {
    let http = Http::with_docs(distance).await;
    let points = json!({"points": [
        {"id": 1, "vector": [1, 0, 0, 0], "payload": {"title": "one", "category": "x"}},
        {"id": 2, "vector": [3, 4, 0, 0], "payload": {"title": "two", "category": "y"}},
        {"id": 3, "vector": [0, 0, 2, 0], "payload": {"title": "three", "category": "x"}},
    ]});
    http.result(Method::PUT, "/collections/docs/points?wait=true", points)
        .await;
    let mut query = json!({"query": [2, 0, 0, 0]});
    query
        .as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    let result = http
        .result(Method::POST, "/collections/docs/points/query", query)
        .await;
    let points = result["points"].as_array().unwrap();
    points
        .iter()
        .map(|point| {
            (
                point["id"].as_u64().unwrap(),
                point["score"].as_f64().unwrap(),
            )
        })
        .collect()
}

fn assert_close(found: &[(u64, f64)], wanted: &[(u64, f64)]) {
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            found.0 == wanted.0 && (found.1 - wanted.1).abs() < 1e-6,
            "{found:?}, not {wanted:?}"
        );
    }
}

#[tokio::test]
async fn cosine_is_the_dot_product_of_unit_vectors_and_descends() {
    assert_close(
        &found("Cosine", json!({})).await,
        &[(1, 1.0), (2, 0.6), (3, 0.0)],
    );
}

#[tokio::test]
async fn dot_descends() {
    assert_close(
        &found("Dot", json!({})).await,
        &[(2, 6.0), (1, 2.0), (3, 0.0)],
    );
}

#[tokio::test]
async fn euclid_is_a_distance_and_ascends() {
    assert_close(
        &found("Euclid", json!({})).await,
        &[(1, 1.0), (3, 8f64.sqrt()), (2, 17f64.sqrt())],
    );
}

#[tokio::test]
async fn a_filter_decides_who_may_be_found_at_all() {
    let filter =
        json!({"limit": 1, "filter": {"must": [{"key": "category", "match": {"value": "y"}}]}});
    assert_close(&found("Euclid", filter).await, &[(2, 17f64.sqrt())]);
    let filter = json!({"filter": {"must_not": [{"has_id": [1]}]}});
    assert_close(&found("Cosine", filter).await, &[(2, 0.6), (3, 0.0)]);
}

#[tokio::test]
async fn a_threshold_keeps_out_what_is_further_away() {
    assert_close(
        &found("Cosine", json!({"score_threshold": 0.5})).await,
        &[(1, 1.0), (2, 0.6)],
    );
    assert_close(
        &found("Euclid", json!({"score_threshold": 3.0})).await,
        &[(1, 1.0), (3, 8f64.sqrt())],
    );
}

#[tokio::test]
async fn limit_and_offset_cut_a_piece_out() {
    assert_close(
        &found("Cosine", json!({"limit": 1, "offset": 1})).await,
        &[(2, 0.6)],
    );
    assert_close(&found("Cosine", json!({"offset": 2})).await, &[(3, 0.0)]);
    assert_close(&found("Cosine", json!({"offset": 9})).await, &[]);
}

/// Returns one of three hundred vectors without any order.
fn vector(seed: u64) -> [f64; 4] {
    std::array::from_fn(|axis| ((seed * 7 + axis as u64 * 13 + 1) as f64 * 1.7).sin())
}

fn cosine(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let dot = |a: &[f64; 4], b: &[f64; 4]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[tokio::test]
async fn the_nearest_of_many_are_those_that_a_look_at_each_finds() {
    let http = Http::with_docs("Cosine").await;
    let points: Vec<_> = (1..=300)
        .map(|id| json!({"id": id, "vector": vector(id)}))
        .collect();
    http.result(
        Method::PUT,
        "/collections/docs/points?wait=true",
        json!({"points": points}),
    )
    .await;
    let asked = vector(1000);
    let mut wanted: Vec<_> = (1..=300)
        .map(|id| (id, cosine(&vector(id), &asked)))
        .collect();
    wanted.sort_by(|a, b| b.1.total_cmp(&a.1));
    wanted.truncate(20);

    let search = json!({"vector": asked, "limit": 20});
    let result = http
        .result(Method::POST, "/collections/docs/points/search", search)
        .await;
    let found: Vec<_> = result
        .as_array()
        .unwrap()
        .iter()
        .map(|point| {
            (
                point["id"].as_u64().unwrap(),
                point["score"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_close(&found, &wanted);
}
