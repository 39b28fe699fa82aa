//! Both servers over one store.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{net::TcpListener, sync::watch};

use crate::{auth::ApiKey, grpc, http, settings::Settings, store::Store};

/// How long requests that are under way may take once the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A store and the two ports that it is reached at.
pub struct Server {
    http: TcpListener,
    grpc: TcpListener,
    store: Arc<Store>,
    key: ApiKey,
}

impl Server {
    /// Opens the store and takes the ports.
    ///
    /// # Errors
    /// When files or ports cannot be had.
    pub async fn bind(settings: &Settings) -> anyhow::Result<Self> {
        let path = &settings.storage_path;
        let store = Store::open(path)
            .with_context(|| format!("cannot open the storage {}", path.display()))?;
        let host = settings.host.as_str();
        Ok(Self {
            http: TcpListener::bind((host, settings.http_port))
                .await
                .context("cannot listen for HTTP")?,
            grpc: TcpListener::bind((host, settings.grpc_port))
                .await
                .context("cannot listen for gRPC")?,
            store: Arc::new(store),
            key: ApiKey::new(settings.api_key.clone()),
        })
    }

    /// # Errors
    /// When the system does not say.
    pub fn http_address(&self) -> io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// # Errors
    /// When the system does not say.
    pub fn grpc_address(&self) -> io::Result<SocketAddr> {
        self.grpc.local_addr()
    }

    /// Answers until `stop` is there, then finishes what is under way and closes the files.
    ///
    /// # Errors
    /// When one of the servers breaks.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (stopping, mut stopped) = watch::channel(false);
        let mut http_stopped = stopped.clone();
        let router = http::router(Arc::clone(&self.store), self.key.clone());
        let http = axum::serve(self.http, router).with_graceful_shutdown(async move {
            let _ = http_stopped.wait_for(|stopped| *stopped).await;
        });
        let grpc = grpc::serve(self.grpc, Arc::clone(&self.store), self.key, async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        });
        let servers = async { tokio::try_join!(async { Ok(http.await?) }, grpc).map(drop) };
        tokio::pin!(servers);
        let result = tokio::select! {
            result = &mut servers => result,
            () = stop => {
                stopping.send_replace(true);
                // A client that holds on to its connection does not hold up the end.
                tokio::time::timeout(GRACE, servers).await.unwrap_or(Ok(()))
            }
        };
        self.store.close();
        result
    }
}
