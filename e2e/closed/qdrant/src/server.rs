//! The HTTP and the gRPC server over one store.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use axum::Router;
use tokio::{net::TcpListener, sync::watch};

use crate::{auth::ApiKey, grpc, http, settings::Settings, store::Store, tls::Tls};

/// The time limit for requests in flight after the server is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A store and the listeners of its two ports.
pub struct Server {
    http: TcpListener,
    grpc: TcpListener,
    store: Arc<Store>,
    key: ApiKey,
    tls: Option<Tls>,
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
            tls: Tls::read(settings)?,
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
        let (stopping, stopped) = watch::channel(false);
        let router = http::router(Arc::clone(&self.store), self.key.clone());
        let http = serve_http(self.http, router, self.tls.as_ref(), until(stopped.clone()));
        let store = Arc::clone(&self.store);
        let tls = self.tls.as_ref().map(Tls::grpc);
        let grpc = grpc::serve(self.grpc, store, self.key, tls, until(stopped));
        let servers = async { tokio::try_join!(http, grpc).map(drop) };
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

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn serve_http(
    listener: TcpListener,
    router: Router,
    tls: Option<&Tls>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    match tls {
        Some(tls) => {
            let listener = tls.listener(listener)?;
            axum::serve(listener, router)
                .with_graceful_shutdown(stop)
                .await?;
        }
        None => {
            axum::serve(listener, router)
                .with_graceful_shutdown(stop)
                .await?;
        }
    }
    Ok(())
}
