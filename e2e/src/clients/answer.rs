//! Answers to requests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// An answer with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Header values by lower case name; several values of one name are joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// The body, which is text on every route of the service.
    pub body: String,
}

impl Answer {
    /// Returns a header's value; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Parses the body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("the body is not JSON: {self:?}"))
    }

    /// Fails unless the answer is a 503 with `Retry-After`.
    pub fn check_unavailable(&self) -> Result<()> {
        ensure!(self.status == 503, "expected status 503, got {self:?}");
        ensure!(
            !self.header("retry-after").is_empty(),
            "no Retry-After in {self:?}"
        );
        Ok(())
    }
}
