//! The answer of the stand-in app: the request as it reached the app.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request as the gateway forwarded it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Echoed {
    pub method: String,
    /// Request target: path and query, byte for byte.
    pub uri: String,
    /// Header values by lower case name, in order of arrival.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Length of the body in bytes.
    pub body_bytes: usize,
}

impl Echoed {
    /// Returns all values of a header joined by `, `; empty if it is absent.
    pub fn header(&self, name: &str) -> String {
        self.headers
            .get(name)
            .map(|values| values.join(", "))
            .unwrap_or_default()
    }
}
