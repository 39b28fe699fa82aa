//! The clients of a broker that process a message.

use std::collections::BTreeSet;

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::{Broker, BrokerError, VHOST};

#[derive(Deserialize)]
struct ChannelRow {
    /// An object, or an empty list if the broker does not know it.
    #[serde(default)]
    connection_details: Value,
    messages_unacknowledged: Option<i64>,
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
        let channels: Vec<ChannelRow> = self.ask(Method::GET, &path, None).await?;
        let columns = "name,user_provided_name";
        let path = format!("vhosts/{VHOST}/connections?columns={columns}");
        let connections: Vec<ConnectionRow> = self.ask(Method::GET, &path, None).await?;
        let is_busy = |connection: &ConnectionRow| {
            channels.iter().any(|channel| {
                channel.connection_details["name"] == connection.name.as_str()
                    && channel.messages_unacknowledged != Some(0)
            })
        };
        let busy = connections.into_iter().filter(is_busy);
        Ok(busy
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
