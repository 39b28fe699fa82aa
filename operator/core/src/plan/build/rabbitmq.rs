//! The managed broker: one RabbitMQ server with a volume of its own and its management UI.

mod config_map;
mod definitions;
mod stateful_set;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use config_map::config_map;
pub use definitions::{DEFINITIONS_KEY, definitions};
pub use stateful_set::stateful_set;

use super::{pod, store::Port};
use crate::model::topology::MANAGEMENT_PORT;

/// Port of the server.
pub const PORT: i32 = 5672;
/// Ports of the server.
pub(super) const PORTS: [Port; 2] = [
    Port {
        name: PORT_NAME,
        number: PORT,
        clients: true,
        operator: false,
    },
    Port {
        name: "management",
        number: MANAGEMENT_PORT as i32,
        clients: false,
        operator: true,
    },
];
/// Name of the server's port.
const PORT_NAME: &str = "amqp";

/// Returns the default requests and limits of the server's container.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["100m", "256Mi"], ["2", "512Mi"])
}
