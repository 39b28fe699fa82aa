//! A client of the HTTP API of a stack's managed vector store, through a forwarded port with the Secret's key.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    clients::{Answer, GatewayClient},
    harness::{Forward, Stack},
};

/// Port of the HTTP API.
const HTTP_PORT: u16 = 6333;

/// A client of the HTTP API. It works as long as the pod that the port is forwarded to.
pub struct Qdrant {
    /// A client of the same address without the key.
    pub http: GatewayClient,
    key: String,
    _forward: Forward,
}

impl Qdrant {
    /// Forwards a port to the vector store of a stack and reads its key.
    pub async fn open(stack: &Stack) -> Result<Self> {
        let name = format!("{}-qdrant", stack.name);
        let forward = Forward::to(stack, &name, HTTP_PORT).await?;
        Ok(Self {
            http: GatewayClient::through(&forward)?,
            key: stack.credential(&name, "api-key").await?,
            _forward: forward,
        })
    }

    /// Sends a request and returns any answer.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let request = self.http.request(method, path).header("api-key", &self.key);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.http.send(request).await
    }

    /// Sends a request that must succeed, and returns its result.
    pub async fn ask(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        let answer = self.send(method, path, Some(&body)).await?;
        ensure!(
            answer.status == 200,
            "{path}: expected status 200, got {answer:?}"
        );
        let mut answer = answer.json()?;
        ensure!(
            answer["status"] == "ok",
            "{path}: expected the status ok, got {answer}"
        );
        Ok(answer["result"].take())
    }

    /// Returns the description of a collection.
    pub async fn collection(&self, name: &str) -> Result<Value> {
        let path = format!("/collections/{name}");
        let answer = self.send(Method::GET, &path, None).await?;
        ensure!(
            answer.status == 200,
            "{path}: expected status 200, got {answer:?}"
        );
        Ok(answer.json()?["result"].take())
    }

    pub async fn create(&self, name: &str, size: u64, distance: &str) -> Result<()> {
        let vectors = json!({"vectors": {"size": size, "distance": distance}});
        let path = format!("/collections/{name}");
        let created = self.ask(Method::PUT, &path, vectors).await?;
        ensure!(
            created == json!(true),
            "{path}: the collection was not created: {created}"
        );
        Ok(())
    }

    pub async fn drop(&self, name: &str) -> Result<()> {
        let path = format!("/collections/{name}");
        let answer = self.send(Method::DELETE, &path, None).await?;
        ensure!(
            answer.json()?["result"] == true,
            "{path}: the collection was not deleted: {answer:?}"
        );
        Ok(())
    }

    pub async fn upsert(&self, name: &str, points: Value) -> Result<()> {
        let path = format!("/collections/{name}/points?wait=true");
        let stored = self
            .ask(Method::PUT, &path, json!({"points": points}))
            .await?;
        ensure!(
            stored["status"] == "completed",
            "{path}: the points were not stored: {stored}"
        );
        Ok(())
    }

    /// Returns the number of points in a collection.
    pub async fn count(&self, name: &str) -> Result<u64> {
        let path = format!("/collections/{name}/points/count");
        let counted = self
            .ask(Method::POST, &path, json!({"exact": true}))
            .await?;
        counted["count"]
            .as_u64()
            .with_context(|| format!("{path}: the answer has no count: {counted}"))
    }
}
