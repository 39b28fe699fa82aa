//! The clients of a broker that process a message.

use std::collections::{BTreeSet, HashSet};

use serde::Deserialize;

use super::{Broker, BrokerError, MAX_LIST, VHOST};

#[derive(Deserialize)]
struct ChannelRow {
    connection_details: Option<ConnectionDetails>,
    messages_unacknowledged: Option<i64>,
}

/// An object, or an empty list if the broker does not know it.
#[derive(Deserialize)]
struct ConnectionDetails {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct ConnectionRow {
    name: String,
    user_provided_name: Option<String>,
}

impl Broker {
    /// Returns the names, as they gave them, of the clients that have a message which they have not acknowledged. A
    /// client without statistics counts as one, because it has just connected.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub async fn busy_clients(&self) -> Result<BTreeSet<String>, BrokerError> {
        let columns = "connection_details.name,messages_unacknowledged";
        let path = format!("vhosts/{VHOST}/channels?columns={columns}");
        let channels: Vec<ChannelRow> = self.read(&path, MAX_LIST).await?;
        let busy: HashSet<String> = channels
            .into_iter()
            .filter(|channel| channel.messages_unacknowledged != Some(0))
            .filter_map(|channel| channel.connection_details?.name)
            .collect();
        let columns = "name,user_provided_name";
        let path = format!("vhosts/{VHOST}/connections?columns={columns}");
        let connections: Vec<ConnectionRow> = self.read(&path, MAX_LIST).await?;
        Ok(connections
            .into_iter()
            .filter(|connection| busy.contains(&connection.name))
            .filter_map(|connection| connection.user_provided_name)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::broker::FakeBroker;

    #[tokio::test]
    async fn a_client_is_busy_until_it_has_acknowledged_its_message() {
        let fake = FakeBroker::default();
        fake.connect("shortener-worker acme-worker-a", Some(1));
        fake.connect("shortener-worker acme-worker-b", Some(0));
        fake.connect("shortener-worker acme-worker-c", None);
        let busy = fake.broker().busy_clients().await.unwrap();
        let expected = ["acme-worker-a", "acme-worker-c"];
        let expected = expected.map(|pod| format!("shortener-worker {pod}"));
        assert_eq!(busy, BTreeSet::from(expected));
    }
}
