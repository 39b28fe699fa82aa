//! The API against its OpenAPI document: a service of every profile, once with keys and once without.
//!
//! `make test` walks over the document and tries every bound of it on both sides. `make integrations` also hands the
//! services to Schemathesis: `API_TESTER` is a program that gets their addresses.

mod schema;
mod walk;

use std::{env, fs, net::SocketAddr};

use shortener_testing::{
    broker::{Broker, until},
    client::{get, json_bytes, send},
    database::TestDatabase,
    vector::Collection,
};
use shortener_worker::tasks::Registry;
use tempfile::TempDir;
use tokio::process::Command;

use self::walk::Walk;
use crate::{
    application,
    documents::config_at,
    support::{Running, prepare},
};

/// A key with every scope.
const KEY: &str = "4f6c1d3e9b7a48025c8e1f60d2a97b35";
/// The number of requests below which the walk has lost its way.
const ENOUGH: usize = 200;

/// A service of every profile.
struct Service {
    public: SocketAddr,
    key: Option<&'static str>,
    _worker: Running,
    _keys: TempDir,
}

impl Service {
    async fn start(
        database: &TestDatabase,
        broker: &Broker,
        store: &Collection,
        key: Option<&'static str>,
    ) -> Self {
        prepare(database).await;
        let config = config_at(database, broker, store, store.url());
        let worker = Running::start(config, Registry::default()).await;
        let keys = tempfile::tempdir().unwrap();
        let mut flags = vec![
            format!("--vector-url={}", store.url()),
            format!("--vector-api-key={}", store.key),
            format!("--vector-collection={}", store.name),
            format!("--job-id-key={KEY}"),
            "--cors-allow-origins=https://app.example.com".to_owned(),
            // The limits are told, and never reached.
            "--limit-shorten-per-minute=4000000".to_owned(),
            "--limit-shorten-burst=4000000".to_owned(),
            "--limit-requests-per-second=1000000".to_owned(),
            "--limit-requests-burst=4000000".to_owned(),
        ];
        if let Some(key) = key {
            fs::write(keys.path().join("tester"), key).unwrap();
            flags.push(format!("--auth-keys-directory={}", keys.path().display()));
        }
        Self {
            public: application::start(database, &broker.url(), &flags).await,
            key,
            _worker: worker,
            _keys: keys,
        }
    }

    /// Walks over the document, and lets the tester do its work if there is one.
    async fn is_as_documented(&self) {
        let headers = self
            .key
            .map(|key| format!("authorization: Bearer {key}\r\n"));
        let headers = headers.unwrap_or_default();
        let accepted = application::accepts(self.public, &headers).await;
        let query = json_bytes("POST", "/docs/query", &headers, br#"{"vector":[1,0,0,0]}"#);
        until("the vector store to answer", async || {
            let answer = send(self.public, &query).await;
            (answer.status == 200).then_some(()).ok_or(answer.text())
        })
        .await;
        let document = get(self.public, "/openapi.json").await.json();
        let walk = Walk {
            public: self.public,
            document: &document,
            headers,
            job: accepted["id"].as_str().unwrap().to_owned(),
        };
        let mut requests = 0;
        // What the first round leaves behind is what the second one finds.
        for _ in 0..2 {
            requests += walk.round().await;
        }
        assert!(requests >= ENOUGH, "{requests} requests");
        if let Some(tester) = env::var_os("API_TESTER") {
            let tested = Command::new(tester)
                .env("API_URL", format!("http://{}", self.public))
                .env("API_KEY", self.key.unwrap_or_default())
                .status()
                .await;
            assert!(tested.unwrap().success(), "see the failures above");
        }
    }
}

#[tokio::test]
async fn a_service_with_keys_answers_as_its_document_says() {
    let (database, store) = (TestDatabase::new().await, Collection::default());
    let broker = Broker::new().await;
    let service = Service::start(&database, &broker, &store, Some(KEY)).await;
    service.is_as_documented().await;
}

#[tokio::test]
async fn a_service_without_keys_answers_as_its_document_says() {
    let (database, store) = (TestDatabase::new().await, Collection::default());
    let broker = Broker::new().await;
    let service = Service::start(&database, &broker, &store, None).await;
    service.is_as_documented().await;
}
