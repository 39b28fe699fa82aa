//! The settings of TLS to the stores: the same three files for each store, under its name.

use std::path::PathBuf;

use clap::Args;

use crate::tls::TlsSettings;

macro_rules! tls_files {
    ($(#[$doc:meta])* $name:ident, $flag:tt, $store:tt) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Args)]
        pub struct $name {
            /// File with the certificates (PEM) of the authorities that sign the server's certificate; the public
            /// authorities are trusted without it. It turns TLS on.
            #[arg(
                id = concat!($store, "_TLS_CA_FILE"),
                long = concat!($flag, "-tls-ca-file"),
                env = concat!($store, "_TLS_CA_FILE")
            )]
            pub ca_file: Option<PathBuf>,
            /// File with the certificate (PEM) that this program presents to the server. It turns TLS on.
            #[arg(
                id = concat!($store, "_TLS_CERT_FILE"),
                long = concat!($flag, "-tls-cert-file"),
                env = concat!($store, "_TLS_CERT_FILE")
            )]
            pub cert_file: Option<PathBuf>,
            /// File with the key (PEM) of that certificate.
            #[arg(
                id = concat!($store, "_TLS_KEY_FILE"),
                long = concat!($flag, "-tls-key-file"),
                env = concat!($store, "_TLS_KEY_FILE")
            )]
            pub key_file: Option<PathBuf>,
        }

        impl $name {
            /// Returns the settings of TLS, which is used without any file as well if `required`.
            pub fn settings(&self, required: bool) -> TlsSettings<'_> {
                TlsSettings {
                    store: $store,
                    required,
                    authorities: self.ca_file.as_ref(),
                    certificate: self.cert_file.as_ref(),
                    key: self.key_file.as_ref(),
                }
            }
        }
    };
}

tls_files! {
    /// Certificates for TLS to the database.
    DatabaseTlsFiles, "database", "DATABASE"
}
tls_files! {
    /// Certificates for TLS to the message broker.
    QueueTlsFiles, "queue", "QUEUE"
}
tls_files! {
    /// Certificates for TLS to the cache.
    CacheTlsFiles, "cache", "CACHE"
}
tls_files! {
    /// Certificates for TLS to the vector store.
    VectorTlsFiles, "vector", "VECTOR"
}
