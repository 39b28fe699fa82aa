//! The HTTP and the gRPC server over one store.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{net::TcpListener, sync::watch};

use crate::{auth::ApiKey, grpc, http, settings::Settings, store::Store};

/// The time limit for requests in flight after the server is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A store and the listeners of its two ports.
pub struct Server {
    http: TcpListener,
    grpc: TcpListener,
    store: Arc<Store>,
    key: ApiKey,
}

impl Server {
    /// Opens the store and binds the ports.
    ///
    /// # Errors
    /// Fails if a file cannot be opened or a port cannot be bound.
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

    /// Returns the address of the HTTP server.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn http_address(&self) -> io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// Returns the address of the gRPC server.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn grpc_address(&self) -> io::Result<SocketAddr> {
        self.grpc.local_addr()
    }

    /// Serves requests until `stop` completes, then finishes requests in flight and closes the files.
    ///
    /// # Errors
    /// An error of one of the servers.
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
                // A client that keeps its connection open does not delay the end beyond this limit.
                tokio::time::timeout(GRACE, servers).await.unwrap_or(Ok(()))
            }
        };
        self.store.close();
        result
    }
}
