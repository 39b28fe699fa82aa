//! The connection to the vector store, with the API key in every request.

use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::{telemetry::call::Server, tls::ClientTls};

/// The timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(1);
/// The interval of HTTP/2 keep-alive pings, and the timeout of their acknowledgement. Without them, a machine that
/// vanished would hold the connection for a quarter of an hour.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// The transport of the store's gRPC clients.
pub(super) type Transport = InterceptedService<Channel, ApiKey>;

/// An interceptor that adds the API key to every request.
#[derive(Clone, Debug)]
pub(super) struct ApiKey(Option<MetadataValue<Ascii>>);

impl Interceptor for ApiKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("api-key", key.clone());
        }
        Ok(request)
    }
}

/// Returns a connection that is established on first use and again after a loss, and the server attributes of spans.
pub(super) fn transport(
    url: &str,
    key: Option<&str>,
    tls: ClientTls,
) -> anyhow::Result<(Transport, Server)> {
    let uri: Uri = url.parse().map_err(|_| invalid("VECTOR_URL"))?;
    let (host, port) = server_of(&uri);
    let server = Server::database("qdrant", host, port);
    let transport = InterceptedService::new(channel(uri, tls)?, api_key(key)?);
    Ok((transport, server))
}

/// Returns host and port of a target, without credentials.
pub(super) fn authority(target: &str) -> anyhow::Result<String> {
    let uri: Uri = target.parse().map_err(|_| invalid("VECTOR_TARGET"))?;
    let (host, port) = server_of(&uri);
    Ok(format!("{host}:{port}"))
}

fn server_of(uri: &Uri) -> (&str, u16) {
    let port = uri.port_u16().unwrap_or_default();
    (uri.host().unwrap_or_default(), port)
}

fn invalid(setting: &str) -> anyhow::Error {
    anyhow!("{setting} is invalid: it must be like http://host:6334")
}

fn channel(uri: Uri, tls: ClientTls) -> anyhow::Result<Channel> {
    let encrypted = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(invalid("VECTOR_URL")),
    };
    let mut endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .keep_alive_while_idle(true);
    if encrypted {
        endpoint = endpoint
            .tls_config(certificates(tls))
            .context("cannot set up TLS for VECTOR_URL")?;
    }
    Ok(endpoint.connect_lazy())
}

fn certificates(tls: ClientTls) -> ClientTlsConfig {
    let config = match tls.authorities {
        Some(authorities) => {
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities))
        }
        None => ClientTlsConfig::new().with_webpki_roots(),
    };
    match tls.identity {
        Some(identity) => config.identity(Identity::from_pem(identity.certificate, identity.key)),
        None => config,
    }
}

fn api_key(key: Option<&str>) -> anyhow::Result<ApiKey> {
    let value = key.map(MetadataValue::try_from).transpose();
    let mut value =
        value.map_err(|_| anyhow!("VECTOR_API_KEY is invalid: it must be visible ASCII"))?;
    if let Some(value) = &mut value {
        value.set_sensitive(true);
    }
    Ok(ApiKey(value))
}
