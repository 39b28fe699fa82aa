//! A server for each test.

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, header::CONTENT_TYPE},
};
use http_body_util::BodyExt;
use qdrant_client::Qdrant;
use qdrant_stand_in::{auth::ApiKey, http, server::Server, settings::Settings, store::Store};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};
use tower::ServiceExt;

pub const KEY: &str = "secret";

/// The HTTP API over a store in a folder of its own.
pub struct Http {
    router: Router,
    _directory: TempDir,
}

impl Http {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(directory.path()).unwrap());
        Self {
            router: http::router(store, ApiKey::new(Some(KEY.to_owned()))),
            _directory: directory,
        }
    }

    /// Creates a store with the collection `docs`.
    pub async fn with_docs(distance: &str) -> Self {
        let http = Self::new();
        let vectors = serde_json::json!({"vectors": {"size": 4, "distance": distance}});
        assert_eq!(
            http.send(Method::PUT, "/collections/docs", &vectors)
                .await
                .0,
            StatusCode::OK
        );
        http
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.answer(authorized(Method::GET, path).body(Body::empty()).unwrap())
            .await
    }

    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.answer(
            authorized(Method::DELETE, path)
                .body(Body::empty())
                .unwrap(),
        )
        .await
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = authorized(method, path).header(CONTENT_TYPE, "application/json");
        self.answer(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    /// Returns the result of a request that must succeed.
    pub async fn result(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, mut answer) = self.send(method, path, &body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["result"].take()
    }

    /// Returns the status and the message of a request that must be refused.
    pub async fn refusal(&self, method: Method, path: &str, body: Value) -> (u16, String) {
        let (status, answer) = self.send(method, path, &body).await;
        (
            status.as_u16(),
            answer["status"]["error"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// Returns the answer to any request; a body that is not JSON becomes a string.
    pub async fn answer(&self, request: Request<Body>) -> (StatusCode, Value) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        (status, body)
    }
}

fn authorized(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("api-key", KEY)
}

/// A running server, and the means to stop it.
pub struct Running {
    grpc_url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    pub async fn start(directory: &TempDir) -> Self {
        let settings = Settings {
            enable_tls: false,
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            api_key: Some(KEY.to_owned()),
            host: "127.0.0.1".to_owned(),
            http_port: 0,
            grpc_port: 0,
            storage_path: directory.path().to_owned(),
            snapshots_path: directory.path().join("snapshots"),
            init_file_path: directory.path().join("ready"),
        };
        let server = Server::bind(&settings).await.unwrap();
        let grpc_url = format!("http://{}", server.grpc_address().unwrap());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self {
            grpc_url,
            stop,
            task,
        }
    }

    pub fn client(&self, key: Option<&str>) -> Qdrant {
        Qdrant::from_url(&self.grpc_url)
            .api_key(key)
            // The check blocks the thread that the server of the test runs on.
            .skip_compatibility_check()
            .timeout(Duration::from_secs(30))
            .build()
            .unwrap()
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}
