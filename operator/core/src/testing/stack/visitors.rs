//! A stack with answers of its own to visitors, and with rules for destinations.

use serde_json::json;

use super::resolved;
use crate::model::stack::ValidatedStack;

impl ValidatedStack {
    /// Sets the answers to visitors and to scripts of other origins.
    pub fn visited(mut self) -> Self {
        let origins = ["https://app.example.com", "http://localhost:3000"];
        let app = resolved(json!({
            "links": {
                "rootTarget": "https://www.example.com",
                "unknownTarget": "https://www.example.com/404?from=links&x=(1)#top",
                "expiredTarget": "http://www.example.com:8080/ended/%C3%BC",
                "forwardQuery": true,
                "clicks": {"enabled": false, "retentionDays": 90},
                // Each is a pattern by the schema, also where no destination has such a host.
                "destinations": {
                    "allowHosts": ["*.example.com", "123", "192.0.2.7", "xn--a.example", "a--b"],
                    "denyHosts": ["bad.example.com"],
                    "denyPrivateAddresses": true,
                },
            },
            "gateway": {"cors": {"allowOrigins": origins}},
            "console": {"enabled": true, "host": "console.example.com"},
        }))
        .app;
        self.app.links = app.links;
        self.app.cors = app.cors;
        self.app.console = app.console;
        self
    }
}
