//! The connection to the vector store, and the key that goes with every request.

use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use crate::telemetry::call::Server;

/// How long a connection attempt may take.
const CONNECT: Duration = Duration::from_secs(1);
/// How often a silent server is asked whether it is there, and how long it may take to say so. Otherwise a machine that
/// vanished would hold the connection for a quarter of an hour.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// What every client of the store asks through.
pub(super) type Service = InterceptedService<Channel, ApiKey>;

/// The key that goes with every request.
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

/// A connection that is made when it is first needed, and again whenever it was lost, and how spans describe its server.
pub(super) fn service(url: &str, key: Option<&str>) -> anyhow::Result<(Service, Server)> {
    let uri: Uri = url.parse().map_err(|_| invalid())?;
    let port = uri.port_u16().unwrap_or_default();
    let server = Server::database("qdrant", uri.host().unwrap_or_default(), port);
    let service = InterceptedService::new(channel(uri)?, api_key(key)?);
    Ok((service, server))
}

fn invalid() -> anyhow::Error {
    anyhow!("VECTOR_URL is invalid: it must be like http://host:6334")
}

fn channel(uri: Uri) -> anyhow::Result<Channel> {
    let tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(invalid()),
    };
    let mut endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .keep_alive_while_idle(true);
    if tls {
        let roots = ClientTlsConfig::new().with_webpki_roots();
        endpoint = endpoint.tls_config(roots).context("VECTOR_URL: no TLS")?;
    }
    Ok(endpoint.connect_lazy())
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
