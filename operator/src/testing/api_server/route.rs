//! Parsers of request paths and queries.

use std::collections::BTreeMap;

use serde_json::Value;

/// A kind of object, as paths contain it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Collection {
    /// API version: `v1` or `group/version`.
    pub(super) api_version: String,
    pub(super) plural: String,
}

/// The key of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) collection: Collection,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The parts of a request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) collection: Collection,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Route {
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let api_version = match parts.next()? {
            "api" => parts.next()?.to_owned(),
            "apis" => format!("{}/{}", parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut rest: Vec<String> = parts.map(str::to_owned).collect();
        let namespace = (rest.len() > 2 && rest[0] == "namespaces")
            .then(|| rest.drain(..2).nth(1))
            .flatten();
        let mut rest = rest.into_iter();
        let collection = Collection {
            api_version,
            plural: rest.next()?,
        };
        Some(Self {
            collection,
            namespace,
            name: rest.next(),
            subresource: rest.next(),
        })
    }

    pub(super) fn key(&self, name: &str) -> Key {
        Key {
            collection: self.collection.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }
}

/// The query of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Self {
        let pairs = url_pairs(query.unwrap_or_default());
        Self(pairs.collect())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    pub(super) fn selector(&self) -> Selector {
        Selector {
            labels: terms(self.get("labelSelector")),
            fields: terms(self.get("fieldSelector")),
        }
    }
}

/// Label and field selectors of the form `key`, `key=value` or `key!=value`.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Term>,
    fields: Vec<Term>,
}

/// A requirement of a selector.
#[derive(Clone, Debug)]
enum Term {
    Exists(String),
    Is(String, String),
    IsNot(String, String),
}

impl Term {
    fn parse(term: &str) -> Self {
        if let Some((key, value)) = term.split_once("!=") {
            return Self::IsNot(key.to_owned(), value.to_owned());
        }
        match term.split_once('=') {
            Some((key, value)) => {
                Self::Is(key.to_owned(), value.trim_start_matches('=').to_owned())
            }
            None => Self::Exists(term.to_owned()),
        }
    }

    fn holds<'a>(&self, find: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::Exists(key) => find(key).is_some(),
            Self::Is(key, value) => find(key) == Some(value.as_str()),
            Self::IsNot(key, value) => find(key) != Some(value.as_str()),
        }
    }
}

impl Selector {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| {
            object["metadata"]["labels"]
                .get(key)
                .and_then(Value::as_str)
        };
        let field = |path: &str| {
            object
                .pointer(&format!("/{}", path.replace('.', "/")))
                .and_then(Value::as_str)
        };
        self.labels.iter().all(|term| term.holds(label))
            && self.fields.iter().all(|term| term.holds(field))
    }
}

fn terms(selector: Option<&str>) -> Vec<Term> {
    let terms = selector.unwrap_or_default().split(',');
    terms
        .filter(|term| !term.is_empty())
        .map(Term::parse)
        .collect()
}

fn url_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decode(key), decode(value)))
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}
