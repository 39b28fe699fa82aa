//! The receivers of webhooks: who is told of what happens to links.

use std::collections::BTreeSet;

use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;

/// A receiver of webhooks. Each event is a signed `POST` request as Standard Webhooks specifies it, which is repeated for
/// three days until the receiver accepts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct WebhookSpec {
    /// Name of the receiver: lower case letters, digits and `-`.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message(
        "links.webhooks.name holds lower case letters, digits and '-' only, and begins and ends with a letter or digit: choose a name such as crm"
    ))]
    pub name: String,
    /// Address that gets the requests: `https` and a public host, without credentials and fragment. Nothing is sent to a
    /// private address.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = is_receiver())]
    pub url: String,
    /// A Secret in the stack's namespace whose entry `secret` signs the requests: one or two lines, each `whsec_` and 24 to
    /// 64 bytes in base64. With two lines, both sign, so that the receiver can replace one. A changed Secret takes effect
    /// without a restart, and without it nothing is sent.
    pub secret_ref: SecretRef,
    /// Events of which the receiver is told; all of them by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4))]
    #[x_kube(
        merge_strategy = ListMerge::Set,
        validation = Rule::new("size(self) > 0").message(
            "links.webhooks.events is empty: name at least one of link.created, link.disabled, link.expired and link.deleted, or remove events"
        )
    )]
    pub events: Option<BTreeSet<WebhookEvent>>,
}

/// What happens to a link.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum WebhookEvent {
    /// A link was created.
    #[serde(rename = "link.created")]
    Created,
    /// A link was deleted.
    #[serde(rename = "link.deleted")]
    Deleted,
    /// A link was disabled.
    #[serde(rename = "link.disabled")]
    Disabled,
    /// A link expired.
    #[serde(rename = "link.expired")]
    Expired,
}

impl WebhookEvent {
    /// Every event, in the order of their names.
    pub const ALL: [Self; 4] = [Self::Created, Self::Deleted, Self::Disabled, Self::Expired];

    /// Returns the value as the resource and the programs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "link.created",
            Self::Deleted => "link.deleted",
            Self::Disabled => "link.disabled",
            Self::Expired => "link.expired",
        }
    }
}

/// Returns the rule that the text in `url` is an address that the programs read: the last label of a name is no number, an
/// IPv4 address has four, and no label is in Punycode, whose validity no rule can check.
fn is_receiver() -> Rule {
    let label = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?";
    let name = format!("({label}[.])+[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?");
    let octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let port =
        "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})";
    let rest = "[/?][-A-Za-z0-9._~:/?@!$&()*+,;=%]*";
    Rule::new(format!(
        "self.matches('^https://({name}|({octet}[.]){{3}}{octet})(:{port})?({rest})?$') && \
         !self.lowerAscii().matches('^https://([^/?]*[.])?xn--')"
    ))
    .message(
        "links.webhooks.url is not a public https address: write https:// and a host such as hooks.example.com, without credentials and without #, and encode other characters than letters, digits and signs of addresses",
    )
}

/// Addresses of every form that the rule admits.
#[cfg(test)]
pub(crate) const ADMITTED_ADDRESSES: [&str; 4] = [
    "https://hooks.example.com",
    "https://hooks.example.com:8443/a/b?c=d&e=%20$(x)",
    "https://HOOKS.example.com?x",
    "https://192.0.2.7:65535/",
];

#[cfg(test)]
mod tests {
    use kube_cel::Validator;
    use kube_core::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::ShortenerStack;

    /// Returns the refusals of a receiver; none if it is admitted.
    fn refusals(change: &Value) -> Option<String> {
        let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut receiver = json!({
            "name": "crm", "url": "https://hooks.example.com/x", "secretRef": {"name": "crm"},
        });
        let receiver_fields = receiver.as_object_mut().unwrap();
        receiver_fields.extend(change.as_object().unwrap().clone());
        let stack = json!({
            "metadata": {"name": "acme"}, "spec": {"links": {"webhooks": [receiver]}},
        });
        let verdict = Validator::new().validate(schema, &stack, None);
        verdict.err().map(|errors| format!("{errors:?}"))
    }

    #[test]
    fn an_address_is_https_at_a_host_without_credentials_and_fragment() {
        for url in ADMITTED_ADDRESSES {
            assert_eq!(refusals(&json!({"url": url})), None, "{url}");
        }
        for url in [
            "http://hooks.example.com",
            "https://",
            "https://hooks",
            "https://user:word@hooks.example.com",
            "https://hooks.example.com@evil.example",
            "https://hooks.example.com/x#y",
            "https://hooks.example.com:0",
            "https://hooks.example.com:65536",
            "https://hooks.example.com:",
            "https://hooks..example.com",
            "https://hooks.example.com/a b",
            "https://hooks.example.com/ü",
            "https://999.0.2.7/",
            "https://192.0.2/",
            "https://hooks.example.1/",
            "https://[2001:db8::7]/",
            " https://hooks.example.com",
            "https://xn--a.example",
            "https://hooks.XN--a.example/x",
        ] {
            let refused = refusals(&json!({"url": url})).unwrap_or_default();
            assert!(
                refused.contains("links.webhooks.url is not"),
                "{url}: {refused}"
            );
        }
    }

    #[test]
    fn a_name_is_a_label_and_a_list_of_events_is_not_empty() {
        for (change, refused) in [
            (json!({"name": "crm-2"}), None),
            (json!({"name": "CRM"}), Some("links.webhooks.name holds")),
            (json!({"name": "-crm"}), Some("links.webhooks.name holds")),
            (json!({"events": ["link.expired"]}), None),
            (
                json!({"events": []}),
                Some("links.webhooks.events is empty"),
            ),
        ] {
            let found = refusals(&change);
            let named = |refused| found.as_ref().is_some_and(|found| found.contains(refused));
            assert_eq!(found.is_some(), refused.is_some(), "{change}: {found:?}");
            assert!(refused.is_none_or(named), "{change}: {found:?}");
        }
    }

    #[test]
    fn events_are_spelt_alike_in_the_resource_and_in_settings() {
        for event in WebhookEvent::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
        }
        let mut names = WebhookEvent::ALL.map(WebhookEvent::as_str);
        names.sort_unstable();
        assert_eq!(names, WebhookEvent::ALL.map(WebhookEvent::as_str));
    }
}
