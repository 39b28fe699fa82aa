//! A stand-in for the Qdrant server: the real engine (`qdrant-edge`) behind the parts of Qdrant's HTTP
//! and gRPC API that the project and its users call. It refuses unsupported requests with an error, so
//! that none of them seems to work.

pub mod auth;
pub mod collection;
pub mod error;
pub mod grpc;
pub mod http;
pub mod model;
pub mod server;
pub mod settings;
pub mod store;
pub mod tls;

/// The version of the API that the server reports: clients compare it with their own.
pub const VERSION: &str = "1.20.0";
