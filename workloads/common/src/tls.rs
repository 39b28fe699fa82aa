//! TLS to the stores: the certificates that a client needs, and the reason why a handshake failed.

use std::{
    error::Error,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail, ensure};
use rustls::{
    CertificateError,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::backends::Fault;

/// The settings of TLS to a store, with the files not read yet.
#[derive(Clone, Copy, Debug)]
pub struct TlsSettings<'a> {
    /// The prefix of the environment variables, for error messages.
    pub store: &'static str,
    /// True if the connection must use TLS even without certificates of its own.
    pub required: bool,
    /// File with the certificates (PEM) of the authorities to trust.
    pub authorities: Option<&'a PathBuf>,
    /// File with the certificate (PEM) of this client, followed by those of intermediate authorities.
    pub certificate: Option<&'a PathBuf>,
    /// File with the key (PEM) of that certificate.
    pub key: Option<&'a PathBuf>,
}

/// The certificates that a client needs for TLS, all as PEM.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// The certificates of the authorities to trust; the public ones if absent.
    pub authorities: Option<String>,
    /// The certificate of this client, if it presents one.
    pub identity: Option<Identity>,
}

/// The certificate of a client and its key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, followed by those of intermediate authorities.
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientTls")
            .field("authorities", &self.authorities.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

impl TlsSettings<'_> {
    /// Reads the files. Returns `None` if the address of the store decides about TLS.
    ///
    /// # Errors
    /// Fails if a file is missing or holds something else, or if only one of certificate and key is set. The message
    /// names the setting and repeats no content.
    pub fn read(self) -> anyhow::Result<Option<ClientTls>> {
        let setting = |suffix: &str| format!("{}_TLS_{suffix}", self.store);
        let authorities = self.authorities.map(|path| {
            let text = text(path, &setting("CA_FILE"))?;
            certificates(&text, &setting("CA_FILE"))?;
            anyhow::Ok(text)
        });
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => {
                let certificate = text(certificate, &setting("CERT_FILE"))?;
                certificates(&certificate, &setting("CERT_FILE"))?;
                let key = text(key, &setting("KEY_FILE"))?;
                PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|_| anyhow::anyhow!("{} holds no key (PEM)", setting("KEY_FILE")))?;
                Some(Identity { certificate, key })
            }
            (None, None) => None,
            _ => bail!(
                "{} and {} belong together: set both, or neither",
                setting("CERT_FILE"),
                setting("KEY_FILE")
            ),
        };
        let tls = ClientTls {
            authorities: authorities.transpose()?,
            identity,
        };
        Ok(self.is_on().then_some(tls))
    }

    /// Returns true if the connection must use TLS. Otherwise the address of the store decides.
    pub fn is_on(&self) -> bool {
        self.required || self.authorities.is_some() || self.certificate.is_some()
    }
}

fn text(path: &Path, setting: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{setting} cannot be read"))
}

fn certificates(pem: &str, setting: &str) -> anyhow::Result<()> {
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        ensure!(
            certificate.is_ok(),
            "{setting} holds a malformed certificate"
        );
        found += 1;
    }
    ensure!(found > 0, "{setting} holds no certificate (PEM)");
    Ok(())
}

/// Returns the reason if an error is a failed TLS handshake, at any depth.
pub fn fault(error: &(dyn Error + 'static)) -> Option<Fault> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(fault_of(error));
        }
        // An I/O error and a shared error name the source of what they hold, and not what they hold.
        let held = error.downcast_ref::<io::Error>();
        let held = held.and_then(io::Error::get_ref);
        let shared = error.downcast_ref::<Arc<dyn Error + Send + Sync>>();
        next = match (held, shared) {
            (Some(held), _) => Some(held as &(dyn Error + 'static)),
            (None, Some(shared)) => Some(&**shared as &(dyn Error + 'static)),
            (None, None) => error.source(),
        };
    }
    None
}

fn fault_of(error: &rustls::Error) -> Fault {
    let rustls::Error::InvalidCertificate(error) = error else {
        return Fault::TlsRefused;
    };
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Fault::TlsExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Fault::TlsName
        }
        _ => Fault::TlsUntrusted,
    }
}

/// Returns the text of an error, and the reason if it is a failed TLS handshake.
pub fn explained(error: &(dyn Error + 'static)) -> String {
    match fault(error) {
        Some(fault) => format!("{fault} ({error})"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rustls::AlertDescription;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Arc<dyn Error + Send + Sync>);

    #[test]
    fn the_reason_of_a_failed_handshake_is_found_at_any_depth() {
        let invalid = rustls::Error::InvalidCertificate;
        for (error, expected) in [
            (invalid(CertificateError::Expired), Fault::TlsExpired),
            (invalid(CertificateError::NotValidYet), Fault::TlsExpired),
            (
                invalid(CertificateError::UnknownIssuer),
                Fault::TlsUntrusted,
            ),
            (invalid(CertificateError::NotValidForName), Fault::TlsName),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                Fault::TlsRefused,
            ),
        ] {
            assert_eq!(fault(&error), Some(expected));
            let io = io::Error::new(io::ErrorKind::InvalidData, error);
            assert_eq!(fault(&io), Some(expected));
            let outer = Outer(Arc::new(io));
            assert_eq!(fault(&outer), Some(expected));
            let sqlx = sqlx::Error::Io(io::Error::other(outer));
            assert_eq!(fault(&sqlx), Some(expected));
            assert!(explained(&sqlx).starts_with(&expected.to_string()));
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(fault(&refused), None);
        assert_eq!(explained(&refused), refused.to_string());
    }

    #[test]
    fn a_file_that_holds_something_else_is_refused_by_the_name_of_its_setting() {
        let folder = std::env::temp_dir().join(format!("shortener-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let certificate = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n";
        let certificate = file("certificate", certificate);
        let other = file("other", "s3cret");
        let missing = folder.join("missing");
        let nothing = TlsSettings {
            store: "CACHE",
            required: false,
            authorities: None,
            certificate: None,
            key: None,
        };
        assert!(nothing.read().unwrap().is_none());
        let required = TlsSettings {
            required: true,
            ..nothing
        };
        assert!(required.read().unwrap().is_some());
        let authorities = |path| TlsSettings {
            authorities: Some(path),
            ..nothing
        };
        assert!(authorities(&certificate).read().unwrap().is_some());
        let identity = |certificate, key| TlsSettings {
            certificate,
            key,
            ..nothing
        };
        for (settings, name) in [
            (authorities(&missing), "CACHE_TLS_CA_FILE"),
            (authorities(&other), "CACHE_TLS_CA_FILE"),
            (identity(Some(&other), Some(&other)), "CACHE_TLS_CERT_FILE"),
            (
                identity(Some(&certificate), Some(&other)),
                "CACHE_TLS_KEY_FILE",
            ),
            (identity(Some(&certificate), None), "CACHE_TLS_KEY_FILE"),
        ] {
            let message = format!("{:#}", settings.read().unwrap_err());
            assert!(
                message.contains(name) && !message.contains("s3cret"),
                "{message}"
            );
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
