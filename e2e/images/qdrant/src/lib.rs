//! A stand-in for the Qdrant server: the real engine (`qdrant-edge`) behind the parts of Qdrant's HTTP and gRPC API that
//! the project and its users call. What it does not know it refuses aloud, where the real server would go on.

pub mod auth;
pub mod collection;
pub mod error;
pub mod grpc;
pub mod http;
pub mod model;
pub mod server;
pub mod settings;
pub mod store;

/// The version of the API that is spoken: clients compare it with their own.
pub const VERSION: &str = "1.20.0";
