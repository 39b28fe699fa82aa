//! The managed cache: one server that keeps everything in memory.

mod config_map;
mod stateful_set;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity,
};

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
/// Memory of the server itself, its connections included.
const OWN_MEMORY: u64 = 32 << 20;

/// Requests and limits of the server's container where the user gives none. What the copies may take is reserved,
/// and half as much again is allowed, because freed memory goes back to the system in whole pages only.
pub fn default_resources(max_memory: u64) -> ResourceRequirements {
    let bytes = |bytes: u64| Quantity(bytes.to_string());
    let requested = max_memory.saturating_add(OWN_MEMORY);
    let allowed = requested.saturating_add(max_memory / 2);
    let with_memory = |quantities: Option<BTreeMap<String, Quantity>>, memory: u64| {
        let mut quantities = quantities.unwrap_or_default();
        quantities.insert("memory".to_owned(), bytes(memory));
        Some(quantities)
    };
    let defaults = pod::resources(["20m", "0"], ["1", "0"]);
    ResourceRequirements {
        requests: with_memory(defaults.requests, requested),
        limits: with_memory(defaults.limits, allowed),
        ..ResourceRequirements::default()
    }
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
