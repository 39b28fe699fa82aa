//! The configuration of the broker. `rabbitmq.conf` is a template: only names between `%` are replaced.

use std::collections::BTreeMap;

use super::PORT;
use crate::model::{
    credentials::DEFINITIONS_KEY,
    stack::{Queue, ValidatedStack},
    topology::{MANAGEMENT_PORT, METRICS_PORT},
};

/// File name of the configuration.
pub(super) const CONFIG: &str = "rabbitmq.conf";
/// File name of the list of plugins.
pub(super) const PLUGINS: &str = "enabled_plugins";
/// The plugins that are on. An image may enable others, which would use memory and open ports.
pub(super) const PLUGINS_TEXT: &str = "[rabbitmq_management,rabbitmq_prometheus].\n";
/// File name of Erlang's resolver configuration.
pub(super) const RESOLVER: &str = "erl_inetrc";
/// Names come from the pod's hosts file alone, because the network policy blocks DNS. The broker looks up the IPv4
/// address of its host for every connection; in a pod without one, each lookup would wait 8 s for a DNS server.
const RESOLVER_TEXT: &str = "{file, hosts, \"/etc/hosts\"}.\n{lookup, [file]}.\n";
/// Bytes of the volume that must stay free of messages.
const DISK_FREE: u64 = 100 << 20;

/// Beginnings of the lines that the members of a broker share with a managed one.
const SHARED: [&str; 4] = [
    "log.",
    "vm_memory_high_watermark.",
    "disk_free_limit.",
    "raft.",
];

/// Returns the files of the configuration, or `None` if the operator does not run a broker.
pub(super) fn files(stack: &ValidatedStack) -> Option<BTreeMap<String, String>> {
    let queue = stack.queue.as_ref()?;
    queue.store.managed()?;
    Some(BTreeMap::from([
        (CONFIG.to_owned(), render(queue)),
        (PLUGINS.to_owned(), PLUGINS_TEXT.to_owned()),
        (RESOLVER.to_owned(), RESOLVER_TEXT.to_owned()),
    ]))
}

/// Returns the lines for the members of a broker that RabbitMQ's operator runs, which has its own for the rest: those of a
/// managed broker that are about limits and the log, and that a queue gets a copy on every member, also on a new one.
pub(super) fn of_members(members: i32) -> String {
    let managed = include_str!("rabbitmq.conf").replace("%DISK_FREE%", &DISK_FREE.to_string());
    let shared = managed
        .lines()
        .filter(|line| SHARED.iter().any(|prefix| line.starts_with(prefix)));
    let reconciliation = [
        "enabled = true".to_owned(),
        format!("target_group_size = {members}"),
    ];
    let reconciliation = reconciliation
        .map(|setting| format!("quorum_queue.continuous_membership_reconciliation.{setting}"));
    let lines = shared.map(str::to_owned).chain(reconciliation);
    lines.map(|line| line + "\n").collect()
}

/// Returns the text of the configuration.
pub(super) fn render(queue: &Queue) -> String {
    include_str!("rabbitmq.conf")
        .replace("%PORT%", &PORT.to_string())
        .replace("%MANAGEMENT_PORT%", &MANAGEMENT_PORT.to_string())
        .replace("%METRICS_PORT%", &METRICS_PORT.to_string())
        .replace("%DEFINITIONS%", DEFINITIONS_KEY)
        .replace("%MEMORY%", &queue.broker_memory.to_string())
        .replace("%DISK_FREE%", &DISK_FREE.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::metadata::Component,
        plan::build,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_config_map_of_a_broker() {
        let stack = minimal_stack().queue();
        golden(
            "config-map-rabbitmq",
            &build::config_map(&stack, Component::Rabbitmq),
        );
    }

    #[test]
    fn only_a_managed_broker_is_configured() {
        assert_eq!(files(&minimal_stack()), None);
        assert_eq!(files(&minimal_stack().external_queue()), None);
    }
}
