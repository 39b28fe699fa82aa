//! The managed vector store: one Qdrant server with a volume of its own.

mod stateful_set;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use stateful_set::stateful_set;

use super::{pod, store::Port};

/// Port of the gRPC API.
pub const GRPC_PORT: i32 = 6334;
/// Port of the HTTP API.
const HTTP_PORT: i32 = 6333;
/// Name of the port of the HTTP API.
const HTTP_PORT_NAME: &str = "http";
/// Ports of the server.
pub(super) const PORTS: [Port; 2] = [
    Port {
        name: HTTP_PORT_NAME,
        number: HTTP_PORT,
        clients: true,
        operator: true,
    },
    Port {
        name: "grpc",
        number: GRPC_PORT,
        clients: true,
        operator: false,
    },
];

/// Returns the default requests and limits of the server's container.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["50m", "128Mi"], ["2", "512Mi"])
}
