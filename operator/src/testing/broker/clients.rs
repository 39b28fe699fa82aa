//! The clients that are connected to the broker.

use serde_json::{Value, json};

use super::{BrokerState, FakeBroker};

impl FakeBroker {
    /// Connects a client with this number of messages that it has not acknowledged, or without statistics.
    pub fn connect(&self, name: &str, unacked: Option<i64>) {
        self.state().clients.insert(name.to_owned(), unacked);
    }
}

impl BrokerState {
    pub(super) fn channels(&self) -> Value {
        let row = |(name, unacked): (&String, &Option<i64>)| match unacked {
            Some(unacked) => json!({
                "connection_details": {"name": address(name)}, "messages_unacknowledged": unacked,
            }),
            None => json!({"connection_details": {"name": address(name)}}),
        };
        // A channel whose connection is closing.
        let closing = json!({"connection_details": [], "messages_unacknowledged": 1});
        let rows = self.clients.iter().map(row);
        rows.chain([closing]).collect()
    }

    pub(super) fn connections(&self) -> Value {
        let names = self.clients.keys();
        names
            .map(|name| json!({"name": address(name), "user_provided_name": name}))
            .collect()
    }
}

/// Returns the broker's own name for a connection.
fn address(name: &str) -> String {
    format!("connection of {name}")
}
