//! A separate collection at the vector store of the tests.

use std::net::SocketAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    client::{Response, exchange, json_bytes},
    servers,
};

/// A collection, which does not exist at first.
pub struct Collection {
    pub name: String,
    /// The API key of the store.
    pub key: String,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Default for Collection {
    fn default() -> Self {
        let [grpc, http, key] = servers::VECTOR
            .addresses()
            .unwrap_or_else(|error| panic!("{error}"));
        let address = |url: &str| url.strip_prefix("http://").unwrap().parse().unwrap();
        Self {
            name: Uuid::now_v7().to_string(),
            key: key.clone(),
            grpc: address(grpc),
            http: address(http),
        }
    }
}

impl Collection {
    /// Returns `host:port` of gRPC, for a proxy.
    pub fn address(&self) -> String {
        self.grpc.to_string()
    }

    /// Returns the URL for the settings of a program.
    pub fn url(&self) -> String {
        url_at(self.grpc)
    }

    /// Creates the collection over HTTP, as a user would.
    pub async fn make(&self, size: u32, distance: &str) {
        let vectors = json!({"vectors": {"size": size, "distance": distance}});
        let made = self.ask("PUT", "", &vectors).await;
        assert_eq!(made.status, 200, "{made:?}");
    }

    /// Deletes the collection.
    pub async fn drop(&self) {
        let dropped = self.ask("DELETE", "", &json!({})).await;
        assert_eq!(dropped.status, 200, "{dropped:?}");
    }

    /// Returns the store's description of the collection; `None` if it does not exist.
    pub async fn info(&self) -> Option<Value> {
        let info = self.ask("GET", "", &json!({})).await;
        (info.status == 200).then(|| info.json()["result"].clone())
    }

    pub async fn put(&self, id: Value, vector: &[f32]) {
        let points = json!({"points": [{"id": id, "vector": vector}]});
        let stored = self.ask("PUT", "/points?wait=true", &points).await;
        assert_eq!(stored.status, 200, "{stored:?}");
    }

    /// Returns the number of points; `None` if the collection does not exist.
    pub async fn count(&self) -> Option<u64> {
        let exact = json!({"exact": true});
        let counted = self.ask("POST", "/points/count", &exact).await;
        (counted.status == 200).then(|| counted.json()["result"]["count"].as_u64().unwrap())
    }

    /// Returns the identifiers and payloads of the nearest points.
    pub async fn nearest(&self, vector: &[f32]) -> Vec<(Value, Value)> {
        let query = json!({"query": vector, "limit": 1000, "with_payload": true});
        let found = self.ask("POST", "/points/query", &query).await;
        assert_eq!(found.status, 200, "{found:?}");
        let points = found.json()["result"]["points"].clone();
        let point = |point: &Value| (point["id"].clone(), point["payload"].clone());
        points.as_array().unwrap().iter().map(point).collect()
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Response {
        let path = format!("/collections/{}{path}", self.name);
        let key = format!("api-key: {}\r\n", self.key);
        let body = body.to_string();
        exchange(self.http, &json_bytes(method, &path, &key, body.as_bytes())).await
    }
}

/// Returns the gRPC URL of another address, such as that of a proxy.
pub fn url_at(address: SocketAddr) -> String {
    format!("http://{address}")
}
