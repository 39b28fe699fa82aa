//! The receivers of webhooks.

use std::collections::BTreeSet;

use crate::{
    api::{LinksSpec, WebhookEvent},
    model::stack::Webhook,
};

/// Resolves the receivers. `missing` are the Secrets of the spec that do not exist.
pub(super) fn webhooks(links: &LinksSpec, missing: &BTreeSet<String>) -> Vec<Webhook> {
    let receivers = links.webhooks.iter().map(|receiver| {
        let secret = &receiver.secret_ref.name;
        let events = receiver.events.clone();
        Webhook {
            name: receiver.name.clone(),
            url: receiver.url.clone(),
            events: events.unwrap_or_else(|| WebhookEvent::ALL.into()),
            secret: secret.clone(),
            missing: missing.contains(secret),
        }
    });
    receivers.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_receiver_is_told_of_every_event_unless_the_spec_names_some() {
        let links = serde_json::from_value(json!({"webhooks": [
            {"name": "crm", "url": "https://crm.test", "secretRef": {"name": "crm-secret"}},
            {
                "name": "audit", "url": "https://audit.test", "secretRef": {"name": "audit"},
                "events": ["link.deleted", "link.created"],
            },
        ]}));
        let missing = BTreeSet::from(["audit".to_owned()]);
        let found = webhooks(&links.unwrap(), &missing);
        assert_eq!(found[0].events, BTreeSet::from(WebhookEvent::ALL));
        let some = BTreeSet::from([WebhookEvent::Created, WebhookEvent::Deleted]);
        assert_eq!(found[1].events, some);
        assert_eq!(found[0].secret, "crm-secret");
        assert_eq!([found[0].missing, found[1].missing], [false, true]);
    }
}
