//! Webhooks: signed messages to the receivers of the stack about links that were created, disabled, deleted or have expired.
//!
//! Triggers write each event into the outbox ([`crate::store::webhooks`]) in the transaction of the change. [`sender`] takes
//! what is due from there, [`client`] sends it, and [`schedule`] decides what happens after an attempt. The app itself shows what
//! is [`overdue`].

pub mod client;
pub mod message;
pub mod metrics;
pub mod overdue;
pub mod run;
pub mod schedule;
pub mod secrets;
pub mod sender;

use std::{collections::BTreeSet, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error};
use url::Url;

/// The kinds of events.
pub const EVENTS: [&str; 4] = [
    "link.created",
    "link.deleted",
    "link.disabled",
    "link.expired",
];

/// The maximum number of receivers.
const MAX_RECEIVERS: usize = 8;
/// The maximum length of a name.
const MAX_NAME: usize = 32;
/// The maximum length of a URL.
const MAX_URL: usize = 2048;

/// A receiver.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// The name, a label of DNS.
    pub name: String,
    /// The address to which messages are posted.
    #[serde(deserialize_with = "address")]
    pub url: Url,
    /// The kinds of events that it gets.
    pub events: Vec<String>,
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|error| D::Error::custom(format!("{text:?} is not a URL: {error}")))
}

/// The receivers of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receivers(pub Vec<Receiver>);

impl FromStr for Receivers {
    type Err = String;

    /// Parses a list (JSON). A list that cannot be sent to is refused: the error names what is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let receivers: Vec<Receiver> = serde_json::from_str(text).map_err(|error| {
            format!("is not a list like [{{\"name\":\"crm\",\"url\":\"https://hooks.example.com/x\",\"events\":[\"link.created\"]}}]: {error}")
        })?;
        if receivers.len() > MAX_RECEIVERS {
            return Err(format!("has more than {MAX_RECEIVERS} receivers"));
        }
        let mut names = BTreeSet::new();
        for receiver in &receivers {
            let name = &receiver.name;
            check(receiver).map_err(|rule| format!("{name:?}: {rule}"))?;
            if !names.insert(name) {
                return Err(format!("{name:?}: the name must be there once"));
            }
        }
        Ok(Self(receivers))
    }
}

fn check(receiver: &Receiver) -> Result<(), String> {
    let Receiver { name, url, events } = receiver;
    let is_inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
    let is_label = name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-');
    if !is_label || !(1..=MAX_NAME).contains(&name.len()) {
        return Err(format!(
            "the name must be 1 to {MAX_NAME} of the characters a-z, 0-9 and '-', which is neither first nor last"
        ));
    }
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    if url.scheme() != "https" || has_credentials || url.fragment().is_some() {
        return Err(
            "the url must begin with https://, and have no credentials and no fragment".to_owned(),
        );
    }
    // An address without a path has become longer by a slash.
    if url.as_str().len() > MAX_URL + 1 {
        return Err(format!("the url must have at most {MAX_URL} characters"));
    }
    match events
        .iter()
        .find(|event| !EVENTS.contains(&event.as_str()))
    {
        Some(event) => Err(format!("{event:?} is not one of {}", EVENTS.join(", "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_addresses_and_events() {
        let text = r#"[{"name":"crm","url":"https://hooks.example.com:8443/x?y","events":["link.created"]}]"#;
        let Receivers(found) = text.parse().unwrap();
        assert_eq!((found.len(), &*found[0].name), (1, "crm"));
        assert_eq!(found[0].url.port(), Some(8443));
        for empty in ["", "[]"] {
            assert_eq!(empty.parse(), Ok(Receivers::default()));
        }
    }

    #[test]
    fn what_cannot_be_sent_to_is_refused_by_name() {
        let one = |name: &str, url: &str, event: &str| {
            format!(r#"{{"name":"{name}","url":"{url}","events":["{event}"]}}"#)
        };
        let good = one("a", "https://example.com/", "link.created");
        for (list, word) in [
            (one("a_b", "https://example.com/", "link.created"), "name"),
            (one("-a", "https://example.com/", "link.created"), "name"),
            (one("", "https://example.com/", "link.created"), "name"),
            (one("a", "http://example.com/", "link.created"), "https"),
            (
                one("a", "https://u@example.com/", "link.created"),
                "credentials",
            ),
            (
                one("a", "https://example.com/#x", "link.created"),
                "fragment",
            ),
            (
                one("a", "https://example.com/", "link.clicked"),
                "link.clicked",
            ),
            (format!("{good},{good}"), "once"),
            ("1".to_owned(), "list"),
        ] {
            let error = format!("[{list}]").parse::<Receivers>().unwrap_err();
            assert!(error.contains(word), "{list}: {error}");
        }
    }
}
