//! References of a spec to the Secrets of an external server, and the files that the stack's programs read from them.

use crate::api::{CaRef, ClientTls, SecretKeyRef, SecretRef};

/// The references of a spec to the Secrets of an external store.
#[derive(Clone, Debug)]
pub struct ExternalReference {
    /// Secret with the address and the credentials.
    pub secret: SecretKeyRef,
    /// Certificates, if the spec asks for TLS.
    pub tls: Option<ClientTls>,
    /// True when the parts of the address are read, although the Secret has a URL as well.
    pub by_parts: bool,
}

impl ExternalReference {
    /// Returns the names of the Secrets.
    pub fn secrets(&self) -> Vec<String> {
        let files = self.tls.as_ref().map(files).unwrap_or_default();
        let names = files.into_iter().map(|file| file.secret);
        names.chain([self.secret.name.clone()]).collect()
    }
}

/// A file with certificates or a key, and its place in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFile {
    pub kind: TlsFileKind,
    /// Name of the Secret.
    pub secret: String,
    /// Key within the Secret.
    pub key: String,
}

/// Kinds of files that a client needs for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFileKind {
    /// Certificates of the authorities that sign the server's certificate.
    Authorities,
    /// Certificate of the client.
    Certificate,
    /// Key of that certificate.
    Key,
}

impl TlsFileKind {
    /// Returns the name of the file in the programs' containers. It is the key of Secrets of the type
    /// `kubernetes.io/tls`.
    pub fn file(self) -> &'static str {
        match self {
            Self::Authorities => "ca.crt",
            Self::Certificate => "tls.crt",
            Self::Key => "tls.key",
        }
    }

    /// Returns the suffix of the environment variable with the path, after the name of the store.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Authorities => "TLS_CA_FILE",
            Self::Certificate => "TLS_CERT_FILE",
            Self::Key => "TLS_KEY_FILE",
        }
    }
}

/// Returns the files that a client needs for TLS.
pub fn files(tls: &ClientTls) -> Vec<TlsFile> {
    let authorities = tls.ca_secret_ref.iter().map(|CaRef { name, key }| TlsFile {
        kind: TlsFileKind::Authorities,
        secret: name.clone(),
        key: key.clone(),
    });
    let identity = tls.client_certificate_secret_ref.iter();
    let identity = identity.flat_map(|SecretRef { name }| {
        [TlsFileKind::Certificate, TlsFileKind::Key].map(|kind| TlsFile {
            kind,
            secret: name.clone(),
            key: kind.file().to_owned(),
        })
    });
    authorities.chain(identity).collect()
}
