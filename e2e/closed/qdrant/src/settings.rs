//! The settings of the real server that this program supports, under the names of its environment variables.

use std::path::PathBuf;

use clap::{ArgAction, Parser};

/// The settings of the server.
#[derive(Debug, Clone, Parser)]
#[command(name = "qdrant", version = crate::VERSION)]
pub struct Settings {
    /// The key that requests must have; without a key, or with an empty one, every client has access.
    #[arg(long, env = "QDRANT__SERVICE__API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,

    /// The address to listen on.
    #[arg(long, env = "QDRANT__SERVICE__HOST", default_value = "0.0.0.0")]
    pub host: String,

    /// The port of the HTTP API; 0 takes a free one.
    #[arg(long, env = "QDRANT__SERVICE__HTTP_PORT", default_value_t = 6333)]
    pub http_port: u16,

    /// The port of the gRPC API; 0 takes a free one.
    #[arg(long, env = "QDRANT__SERVICE__GRPC_PORT", default_value_t = 6334)]
    pub grpc_port: u16,

    /// Serves both APIs over TLS.
    #[arg(long, env = "QDRANT__SERVICE__ENABLE_TLS", default_value_t = false, action = ArgAction::Set)]
    pub enable_tls: bool,

    /// The file with the certificate (PEM) and those of intermediate authorities.
    #[arg(long, env = "QDRANT__TLS__CERT", default_value = "./tls/cert.pem")]
    pub tls_cert: PathBuf,

    /// The file with the key (PEM) of the certificate.
    #[arg(long, env = "QDRANT__TLS__KEY", default_value = "./tls/key.pem")]
    pub tls_key: PathBuf,

    /// The folder of the collections.
    #[arg(
        long,
        env = "QDRANT__STORAGE__STORAGE_PATH",
        default_value = "./storage"
    )]
    pub storage_path: PathBuf,

    /// The folder for snapshots. It is created at the start and not used.
    #[arg(
        long,
        env = "QDRANT__STORAGE__SNAPSHOTS_PATH",
        default_value = "./snapshots"
    )]
    pub snapshots_path: PathBuf,

    /// The file that is written once the server is ready.
    #[arg(
        long,
        env = "QDRANT_INIT_FILE_PATH",
        default_value = ".qdrant-initialized"
    )]
    pub init_file_path: PathBuf,
}
