//! TLS for both servers, from the files that the settings name.

use std::{fs, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use axum::serve::Listener;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};
use tonic::transport::{Identity, ServerTlsConfig};

use crate::settings::Settings;

/// The time limit for a handshake, during which no other client of the HTTP server can connect.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The certificate of both servers and its key.
pub struct Tls {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the files, or returns `None` if TLS is off.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn read(settings: &Settings) -> anyhow::Result<Option<Self>> {
        if !settings.enable_tls {
            return Ok(None);
        }
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        Ok(Some(Self {
            certificate: read(&settings.tls_cert)?,
            key: read(&settings.tls_key)?,
        }))
    }

    /// Returns the configuration of the gRPC server.
    pub fn grpc(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(Identity::from_pem(&self.certificate, &self.key))
    }

    /// Returns a listener of the HTTP server.
    ///
    /// # Errors
    /// Fails if the certificate and the key do not belong together, or one of them is malformed.
    pub fn listener(&self, tcp: TcpListener) -> anyhow::Result<TlsListener> {
        let certificates =
            CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        Ok(TlsListener {
            tcp,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

/// A listener whose connections use TLS.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.tcp).await;
            match timeout(HANDSHAKE, self.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => return (stream, peer),
                Ok(Err(error)) => log::info!("TLS handshake with {peer} failed: {error}"),
                Err(_) => log::info!("TLS handshake with {peer} took too long"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
