//! The managed database: one PostgreSQL server with a volume of its own.

mod stateful_set;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use stateful_set::stateful_set;

use super::{pod, store::Port};

/// Port of the server.
pub const PORT: i32 = 5432;
/// Name of the database.
pub const DATABASE: &str = "shortener";
/// Ports of the server.
pub(super) const PORTS: [Port; 1] = [Port {
    name: PORT_NAME,
    number: PORT,
    clients: true,
    operator: false,
}];
/// Name of the server's port.
const PORT_NAME: &str = "postgres";

/// Returns the default requests and limits of the server's container.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["100m", "128Mi"], ["2", "512Mi"])
}
