//! A stack that tells others of its links.

use serde_json::json;

use super::resolved;
use crate::model::stack::ValidatedStack;

impl ValidatedStack {
    /// Adds two receivers of webhooks, whose Secrets exist.
    pub fn webhooks(mut self) -> Self {
        let told = resolved(json!({"links": {"webhooks": [
            {
                "name": "crm",
                "url": "https://hooks.example.com/x?y=1",
                "secretRef": {"name": "crm-hook"},
            },
            {
                "name": "audit",
                "url": "https://audit.example.com:8443",
                "secretRef": {"name": "audit-hook"},
                "events": ["link.deleted"],
            },
        ]}}));
        self.app.links.webhooks = told.app.links.webhooks;
        self.webhooks = told.webhooks;
        self
    }
}
