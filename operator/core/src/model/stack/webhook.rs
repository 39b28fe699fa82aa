//! The receivers of webhooks of a stack.

use std::collections::BTreeSet;

use crate::api::WebhookEvent;

/// A receiver of webhooks, with every default resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Name of the receiver.
    pub name: String,
    /// Address that gets the requests.
    pub url: String,
    /// Events of which the receiver is told.
    pub events: BTreeSet<WebhookEvent>,
    /// The Secret that signs the requests.
    pub secret: String,
    /// True while the Secret does not exist.
    pub missing: bool,
}

impl Webhook {
    /// Returns the port of the receiver. The schema prescribes the form of the address.
    pub fn port(&self) -> i32 {
        let (_, rest) = self.url.split_once("://").unwrap_or_default();
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let port = authority.split_once(':');
        let given = port.and_then(|(_, port)| port.parse().ok());
        given.unwrap_or(443)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::stack::minimal_stack;

    #[test]
    fn a_receiver_listens_at_the_port_of_its_address() {
        let mut receiver = minimal_stack().webhooks().webhooks.remove(0);
        for (url, port) in [
            ("https://hooks.example.com", 443),
            ("https://hooks.example.com/a:1", 443),
            ("https://hooks.example.com?a:1", 443),
            ("https://hooks.example.com:8443", 8443),
            ("https://192.0.2.7:1/x", 1),
        ] {
            url.clone_into(&mut receiver.url);
            assert_eq!(receiver.port(), port, "{url}");
        }
    }
}
