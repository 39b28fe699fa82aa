//! The answers of an operation: those that need no handler, and the header fields of all of them.

use http::StatusCode;
use serde_json::{Value, json};

use super::{has_keys, members, needs_key};
use crate::{
    config::ServeArgs,
    error::PROBLEM_JSON,
    page::{self, TEXT_HTML},
    route::Row,
    scope::Scope,
};

/// What the settings say about one operation.
pub(super) struct Terms {
    pub(super) row: Row,
    /// True if clients of this service can have keys.
    pub(super) has_keys: bool,
    /// True if the operation is refused without a key.
    pub(super) needs_key: bool,
}

impl Terms {
    pub(super) fn of(row: Row, config: &ServeArgs) -> Self {
        Self {
            row,
            has_keys: has_keys(config),
            needs_key: needs_key(row.scope, config),
        }
    }

    /// Returns the status and the description of each answer that needs no handler.
    fn beside(&self) -> Vec<(&'static str, &'static str)> {
        let mut answers = vec![
            ("414", "The path and the query are too long"),
            (
                "429",
                "Too many requests from one address, or with the keys of one client",
            ),
            ("431", "The header fields are too long"),
            ("500", "An internal error"),
            ("503", "The answer was not ready in time"),
        ];
        if self.needs_key {
            answers.push(("401", "No key, or one that is not known"));
        }
        if self.needs_key && self.has_keys {
            answers.push(("403", "The key has not got the scope for this"));
        }
        answers
    }

    /// Returns the header fields of an answer, each with the name of its description.
    fn fields(&self, status: StatusCode) -> Vec<(&'static str, &'static str)> {
        let mut fields = Vec::new();
        let is_error = is_error(status);
        let manages = self.row.scope == Some(Scope::Admin);
        if is_error || manages && status == StatusCode::OK {
            fields.push(("Cache-Control", "NoStore"));
        }
        match status {
            StatusCode::UNAUTHORIZED => fields.push(("WWW-Authenticate", "Challenge")),
            StatusCode::FORBIDDEN => fields.push(("WWW-Authenticate", "ScopeChallenge")),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                fields.push(("Retry-After", "RetryAfter"));
            }
            _ => {}
        }
        if self.row.tells_limit() && !status.is_redirection() {
            fields.push(("RateLimit-Policy", "RateLimitPolicy"));
            fields.push(("RateLimit", "RateLimit"));
        }
        if is_error && self.has_page(status) {
            fields.push(("Vary", "VaryAccept"));
            fields.push(("Content-Security-Policy", "PagePolicy"));
        }
        fields
    }

    fn has_page(&self, status: StatusCode) -> bool {
        self.row.page && page::of_status(status, "").is_some()
    }
}

/// Completes the answers of an operation.
pub(super) fn complete(answers: &mut Value, terms: &Terms) {
    for (status, description) in terms.beside() {
        if answers.get(status).is_none() {
            answers[status] = json!({ "description": description });
        }
    }
    // Only a service with keys can ask for one.
    let asks = terms.needs_key || terms.has_keys;
    if let Some(answers) = answers.as_object_mut().filter(|_| !asks) {
        answers.remove("401");
    }
    for (status, answer) in members(answers) {
        let status = StatusCode::from_bytes(status.as_bytes()).unwrap_or_default();
        if let Some(fields) = answer.get_mut("headers") {
            // What a handler promises, it always sends.
            for (_, field) in members(fields) {
                field["required"] = true.into();
            }
        }
        if is_error(status) {
            answer["content"] = problem(terms.has_page(status));
        }
        for (field, description) in terms.fields(status) {
            let place = format!("#/components/headers/{description}");
            answer["headers"][field] = json!({ "$ref": place });
        }
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Returns the content of an error: a problem, or a page for people.
fn problem(has_page: bool) -> Value {
    let problem = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
    let mut content = json!({});
    content[PROBLEM_JSON] = problem;
    if has_page {
        content[TEXT_HTML] = json!({"schema": {"type": "string"}});
    }
    content
}

/// Returns the descriptions of header fields that many answers have.
pub(super) fn fields() -> Value {
    json!({
        "NoStore": field(true, "No cache keeps the answer", json!({"type": "string", "const": "no-store"})),
        "RetryAfter": field(true, "The seconds after which a retry is useful", json!({"type": "integer", "minimum": 1})),
        "Challenge": field(true, "The challenge (RFC 6750)", text("^Bearer")),
        "ScopeChallenge": field(false, "The challenge with the scope that a key needs (RFC 6750)", text("^Bearer")),
        "RateLimitPolicy": field(
            false,
            "The quota `q` and its window `w` in seconds (draft-ietf-httpapi-ratelimit-headers-10)",
            text("^\"(shorten|requests)\";q=[0-9]+;w=[0-9]+$"),
        ),
        "RateLimit": field(
            false,
            "What is left of the quota, `r`, and the seconds `t` until it is whole again",
            text("^\"(shorten|requests)\";r=[0-9]+;t=[0-9]+$"),
        ),
        "VaryAccept": field(true, "The answer depends on `Accept`", text("accept")),
        "PagePolicy": field(false, "The policy of a page", text("^default-src 'none'")),
    })
}

fn field(is_required: bool, description: &str, schema: Value) -> Value {
    json!({"description": description, "required": is_required, "schema": schema})
}

/// Returns the schema of a text with a part of this form.
fn text(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}
