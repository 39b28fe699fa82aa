//! The managed cache: one server that keeps all its data in memory.

mod config_map;
mod stateful_set;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use config_map::config_map;
pub use stateful_set::stateful_set;

use super::{pod, store::Port};

/// Port of the server.
pub const PORT: i32 = 6379;
/// Ports of the server.
pub(super) const PORTS: [Port; 1] = [Port {
    name: PORT_NAME,
    number: PORT,
    clients: true,
    operator: false,
}];
/// Name of the server's port.
const PORT_NAME: &str = "redis";
/// Returns the default requests and limits of the server's container.
pub fn default_resources(max_memory: u64) -> ResourceRequirements {
    // Memory of the server itself, with its connections.
    let own = pod::resources(["20m", "32Mi"], ["1", "32Mi"]);
    pod::with_extra_memory(own, max_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_has_room_beyond_the_copies() {
        let resources = default_resources(128 << 20);
        assert_eq!(resources.requests.unwrap()["memory"].0, "167772160");
        assert_eq!(resources.limits.unwrap()["memory"].0, "234881024");
    }
}
