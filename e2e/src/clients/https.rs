//! The HTTP clients of the tests. They trust only the certificates that a test passes.

use std::sync::Arc;

use anyhow::{Context, Result};
use reqwest::ClientBuilder;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Returns the builder of a client that trusts these certificates (PEM).
pub(super) fn client(certificates: &[&str]) -> Result<ClientBuilder> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .context("the certificate is not PEM")?;
        roots.add(certificate)?;
    }
    // Without a configuration, reqwest would look for a provider of the process and panic.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(reqwest::Client::builder().tls_backend_preconfigured(config))
}
