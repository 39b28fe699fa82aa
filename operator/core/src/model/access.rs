//! Connection settings of an external server in its Secret: a URL, or host, user and password under separate keys.
//! The key names are those that the operators of databases, brokers and caches write. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use crate::api::SecretKeyRef;

/// Keys that may hold a URL; the first one present is used.
const URL_KEYS: [&str; 3] = ["url", "uri", "connection_string"];

/// The keys of a Secret that hold the connection settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Key that holds a URL.
    Url(String),
    /// Key of each part that is in the Secret; the host is always among them.
    Parts(Vec<(Part, &'static str)>),
}

/// A part of the connection settings, as a URL would contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Name or address of the server.
    Host,
    Port,
    /// Name of the database.
    Database,
    /// Virtual host of a broker.
    VirtualHost,
    Username,
    Password,
}

impl Part {
    /// Returns the keys that may hold this part; the first one present is used.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["host"],
            Self::Port => &["port"],
            Self::Database => &["dbname", "database"],
            Self::VirtualHost => &["vhost", "virtual_host"],
            Self::Username => &["username", "user"],
            Self::Password => &["password"],
        }
    }

    /// Returns the suffix of the environment variable in the app and the worker, after the name of the store.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Host => "HOST",
            Self::Port => "PORT",
            Self::Database => "NAME",
            Self::VirtualHost => "VHOST",
            Self::Username => "USERNAME",
            Self::Password => "PASSWORD",
        }
    }
}

/// Finds the keys with the connection settings of a server, of which clients accept these parts; `None` if the Secret
/// lacks them.
pub fn find(
    parts: &[Part],
    key: Option<&str>,
    data: &BTreeMap<String, ByteString>,
) -> Option<Access> {
    if let Some(key) = key {
        return data.contains_key(key).then(|| Access::Url(key.to_owned()));
    }
    match first(&URL_KEYS, data) {
        Some(key) => Some(Access::Url(key.to_owned())),
        None => find_parts(parts, data),
    }
}

/// Finds the keys with these parts of the connection settings of a server; `None` if the Secret has no host.
pub fn find_parts(parts: &[Part], data: &BTreeMap<String, ByteString>) -> Option<Access> {
    first(Part::Host.keys(), data)?;
    let parts = parts
        .iter()
        .filter_map(|part| Some((*part, first(part.keys(), data)?)));
    Some(Access::Parts(parts.collect()))
}

/// Returns the first key that has a value.
fn first(keys: &[&'static str], data: &BTreeMap<String, ByteString>) -> Option<&'static str> {
    let filled = |key: &&str| data.get(*key).is_some_and(|value| !value.0.is_empty());
    keys.iter().copied().find(filled)
}

/// Describes the keys that a reference needs, for error messages.
pub fn wanted(reference: &SecretKeyRef) -> String {
    reference
        .key
        .clone()
        .unwrap_or_else(|| format!("{} or host", URL_KEYS.join(", ")))
}

impl Access {
    /// Returns every key that is read.
    pub fn keys(&self) -> Vec<&str> {
        match self {
            Self::Url(key) => vec![key],
            Self::Parts(parts) => parts.iter().map(|(_, key)| *key).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::metadata::Component, plan::stores};

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        let entries = entries.iter();
        entries
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect()
    }

    fn found(server: Component, key: Option<&str>, entries: &[(&str, &str)]) -> Vec<String> {
        let access = find(stores::parts(server), key, &data(entries));
        let keys = access.iter().flat_map(Access::keys);
        keys.map(str::to_owned).collect()
    }

    #[test]
    fn a_key_that_is_named_is_the_only_one_that_counts() {
        let entries = [("url", "postgres://db"), ("mine", "postgres://other")];
        assert_eq!(found(Component::Postgres, Some("mine"), &entries), ["mine"]);
        assert_eq!(
            find(
                stores::parts(Component::Postgres),
                Some("uri"),
                &data(&entries)
            ),
            None
        );
    }

    #[test]
    fn without_a_key_a_url_comes_before_its_parts() {
        let parts = [("host", "db"), ("password", "p")];
        for key in ["url", "uri", "connection_string"] {
            let entries = [&parts[..], &[(key, "postgres://db")]].concat();
            assert_eq!(found(Component::Postgres, None, &entries), [key]);
        }
        let empty = [("url", ""), ("uri", "postgres://db")];
        assert_eq!(found(Component::Postgres, None, &empty), ["uri"]);
    }

    #[test]
    fn the_secret_of_cloudnativepg_is_understood_with_and_without_its_uri() {
        let entries = [
            ("dbname", "app"),
            ("host", "links-rw"),
            ("jdbc-uri", "jdbc:postgresql://links-rw.db:5432/app"),
            ("password", "p"),
            ("pgpass", "links-rw:5432:app:app:p"),
            ("port", "5432"),
            ("uri", "postgresql://app:p@links-rw.db:5432/app"),
            ("user", "app"),
            ("username", "app"),
        ];
        assert_eq!(found(Component::Postgres, None, &entries), ["uri"]);
        let entries = entries.map(|(key, value)| (key, if key == "uri" { "" } else { value }));
        assert_eq!(
            found(Component::Postgres, None, &entries),
            ["host", "port", "dbname", "username", "password"]
        );
    }

    #[test]
    fn the_secret_of_rabbitmqs_operator_is_understood_with_and_without_its_connection_string() {
        let entries = [
            ("connection_string", "amqp://u:p@links.mq.svc:5672/"),
            ("host", "links.mq.svc"),
            ("password", "p"),
            ("port", "5672"),
            ("provider", "rabbitmq"),
            ("type", "rabbitmq"),
            ("username", "u"),
        ];
        assert_eq!(
            found(Component::Rabbitmq, None, &entries),
            ["connection_string"]
        );
        assert_eq!(
            found(Component::Rabbitmq, None, &entries[1..]),
            ["host", "port", "username", "password"]
        );
    }

    #[test]
    fn only_what_a_server_knows_is_taken_from_its_secret() {
        let entries = [
            ("database", "links"),
            ("host", "h"),
            ("password", "p"),
            ("port", "1"),
            ("vhost", "v"),
        ];
        for (server, keys) in [
            (
                Component::Postgres,
                &["host", "port", "database", "password"][..],
            ),
            (
                Component::Rabbitmq,
                &["host", "port", "vhost", "password"][..],
            ),
            (Component::Cache, &["host", "port", "password"][..]),
            (Component::Qdrant, &["host", "port"][..]),
        ] {
            assert_eq!(found(server, None, &entries), keys, "{server:?}");
        }
    }

    #[test]
    fn a_secret_without_url_and_host_tells_nothing() {
        let entries = [("password", "p"), ("host", "")];
        let parts = stores::parts(Component::Cache);
        assert_eq!(find(parts, None, &data(&entries)), None);
    }
}
