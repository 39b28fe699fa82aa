//! Documents of a stack, through its gateway, and results of queries for them.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    clients::{Answer, GatewayClient},
    harness::await_condition,
};

/// The tolerance between a score and the value computed by hand: the store has single precision.
const TOLERANCE: f64 = 1e-5;

/// A result of a search.
#[derive(Clone, Debug)]
pub struct Hit {
    pub id: u64,
    pub score: f64,
    /// Payload of the document; null if the query did not request it.
    pub payload: Value,
}

/// Reads a list of results. Each has an id and a score.
pub fn hits(list: &Value) -> Result<Vec<Hit>> {
    let list = list
        .as_array()
        .with_context(|| format!("expected a list of results, got {list}"))?;
    list.iter()
        .map(|item| {
            let id = item["id"].as_u64();
            let score = item["score"].as_f64();
            let (id, score) = id
                .zip(score)
                .with_context(|| format!("expected a result with id and score, got {item}"))?;
            Ok(Hit {
                id,
                score,
                payload: item["payload"].clone(),
            })
        })
        .collect()
}

impl Hit {
    /// Checks that exactly these documents were found, in this order and with these scores.
    pub fn are(found: &[Self], expected: &[(u64, f64)]) -> Result<()> {
        let same = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(hit, (id, score))| hit.id == *id && (hit.score - score).abs() < TOLERANCE);
        ensure!(same, "expected {expected:?}, found {found:?}");
        Ok(())
    }
}

impl GatewayClient {
    /// Stores a document; returns any answer.
    pub async fn put_document(&self, id: u64, vector: &[f64], payload: Value) -> Result<Answer> {
        let request = self.request(Method::PUT, &format!("/api/docs/{id}"));
        let body = json!({"vector": vector, "payload": payload});
        self.send(request.json(&body)).await
    }

    /// Deletes a document; returns any answer.
    pub async fn delete_document(&self, id: u64) -> Result<Answer> {
        self.send(self.request(Method::DELETE, &format!("/api/docs/{id}")))
            .await
    }

    /// Queries documents, and returns the results; the query must succeed.
    pub async fn find_documents(&self, query: &Value) -> Result<Vec<Hit>> {
        let answer = self.post("/api/docs/query", query).await?;
        ensure!(answer.status == 200, "expected status 200, got {answer:?}");
        hits(&answer.json()?["result"])
    }

    /// Deletes every document that an earlier test may have left, and stores these under the ids from 1 on; each
    /// request must be answered with `status`.
    pub async fn only_documents(&self, documents: &[(Vec<f64>, Value)], status: u16) -> Result<()> {
        self.no_documents().await?;
        for (id, (vector, payload)) in (1..).zip(documents) {
            let answer = self.put_document(id, vector, payload.clone()).await?;
            ensure!(
                answer.status == status,
                "document {id}: expected status {status}, got {answer:?}"
            );
        }
        Ok(())
    }

    /// Deletes every document that a query finds.
    pub async fn no_documents(&self) -> Result<()> {
        await_condition("no document is left", async || {
            let left = self
                .find_documents(&json!({"vector": [1, 1, 1, 1], "limit": 100}))
                .await?;
            for hit in &left {
                self.delete_document(hit.id).await?;
            }
            ensure!(left.is_empty(), "{} documents are left", left.len());
            Ok(())
        })
        .await
    }
}
