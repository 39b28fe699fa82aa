//! Table 4.4: the vector database.

use anyhow::{Result, bail};
use reqwest::Method;
use serde_json::{Value, json};
use shortener_e2e::{Answer, Qdrant, Stack, hits};

use crate::report::Report;

const TABLE: &str = "4.4";

/// Sends requests about a collection of this process, which is deleted afterwards.
pub(crate) async fn rows(report: &mut Report, stack: &Stack) -> Result<()> {
    let path = format!("/collections/tables-{}", std::process::id());
    let qdrant = Qdrant::open(stack).await?;
    let interrupted = tokio::select! {
        () = requests(report, &qdrant, &path) => false,
        signal = tokio::signal::ctrl_c() => signal.is_ok(),
    };
    // An interrupt ends kubectl too, and with it the forwarded port.
    let qdrant = Qdrant::open(stack).await?;
    qdrant.send(Method::DELETE, &path, None).await?;
    if interrupted {
        bail!("interrupted");
    }
    Ok(())
}

async fn requests(report: &mut Report, qdrant: &Qdrant, path: &str) {
    report.row(TABLE, "the vector database requires its key");
    let answer = report
        .ask(&qdrant.http, Method::GET, "/collections", None)
        .await;
    report.expect_status(&answer, 401);

    report.row(
        TABLE,
        "PUT /collections/<collection_name>: collection created",
    );
    let vectors = json!({"vectors": {"size": 4, "distance": "Cosine"}});
    let answer = report.ask(qdrant, Method::PUT, path, Some(&vectors)).await;
    report.expect_status(&answer, 200);
    report.expect_body(&answer, "the result true", |body| {
        body["status"] == "ok" && body["result"] == true
    });

    report.row(TABLE, "upsert points: success of storing");
    let points = json!({"points": [
        {"id": 1, "vector": [0.05, 0.61, 0.76, 0.74], "payload": {"title": "one", "category": "a"}},
        {"id": 2, "vector": [0.19, 0.81, 0.75, 0.11], "payload": {"title": "two", "category": "b"}},
        {"id": 3, "vector": [0.36, 0.55, 0.47, 0.94], "payload": {"title": "three", "category": "a"}},
    ]});
    let upsert = format!("{path}/points?wait=true");
    let answer = report
        .ask(qdrant, Method::PUT, &upsert, Some(&points))
        .await;
    report.expect_status(&answer, 200);
    report.expect_body(&answer, "the status completed", |body| {
        body["status"] == "ok" && body["result"]["status"] == "completed"
    });

    queries(report, qdrant, path).await;
}

async fn queries(report: &mut Report, qdrant: &Qdrant, path: &str) {
    let search = format!("{path}/points/search");
    let vector = json!([0.2, 0.1, 0.9, 0.7]);
    report.row(
        TABLE,
        "query by vector: list of results with id, score, payload",
    );
    let query = json!({"vector": vector, "limit": 3, "with_payload": true});
    let answer = report
        .ask(qdrant, Method::POST, &search, Some(&query))
        .await;
    report.expect_status(&answer, 200);
    expect_results(report, &answer, "/result", &[1, 3, 2]);

    report.row(TABLE, "query by vector, by the store's newer path");
    let newer = format!("{path}/points/query");
    let query = json!({"query": vector, "limit": 3, "with_payload": true});
    let answer = report.ask(qdrant, Method::POST, &newer, Some(&query)).await;
    report.expect_status(&answer, 200);
    expect_results(report, &answer, "/result/points", &[1, 3, 2]);

    report.row(
        TABLE,
        "the metadata filter: only points whose payload matches",
    );
    let filter = json!({"must": [{"key": "category", "match": {"value": "b"}}]});
    let query = json!({"vector": vector, "limit": 3, "with_payload": true, "filter": filter});
    let answer = report
        .ask(qdrant, Method::POST, &search, Some(&query))
        .await;
    report.expect_status(&answer, 200);
    expect_results(report, &answer, "/result", &[2]);
}

/// Expects the points in this order, by descending score.
fn expect_results(report: &mut Report, answer: &Answer, pointer: &str, ids: &[u64]) {
    let body = answer.json().unwrap_or_default();
    let found = hits(body.pointer(pointer).unwrap_or(&Value::Null)).unwrap_or_default();
    let complete = found.iter().map(|hit| hit.id).eq(ids.iter().copied())
        && found.iter().all(|hit| hit.payload["title"].is_string());
    report.expect(
        &format!("the points {ids:?} with id, score and payload"),
        complete,
    );
    let descending = found.is_sorted_by(|one, next| one.score >= next.score);
    report.expect("descending scores", descending && !found.is_empty());
}
