//! The answers of an operation: those that need no handler, and the header fields of all of them.

use http::StatusCode;
use serde_json::{Value, json};

use super::{has_keys, members, needs_key};
use crate::{
    config::ServeArgs,
    cors,
    error::PROBLEM_JSON,
    limits::{Rate, Rates},
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
    /// True if at least some clients have a rate limit.
    is_limited: bool,
    origins: Origins,
}

/// The origins whose scripts may use the operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origins {
    None,
    Some,
    Every,
}

impl Terms {
    pub(super) fn of(row: Row, is_post: bool, config: &ServeArgs) -> Self {
        let allowed = &config.cors_allow_origins;
        let origins = match allowed.iter().any(|origin| origin == cors::ANY) {
            _ if allowed.is_empty() || !row.is_for_scripts() => Origins::None,
            true => Origins::Every,
            false => Origins::Some,
        };
        let mut rates = rates(is_post && row.creates, config).into_iter();
        Self {
            row,
            has_keys: has_keys(config),
            needs_key: needs_key(row.scope, config),
            is_limited: rates.any(|rate| rate.requests > 0),
            origins,
        }
    }

    /// Returns the status and the description of each answer that needs no handler.
    fn beside(&self) -> Vec<(&'static str, &'static str)> {
        let mut answers = vec![
            ("414", "The path and the query are too long"),
            ("431", "The header fields are too long"),
            ("500", "An internal error"),
            ("503", "The answer was not ready in time"),
        ];
        if self.is_limited {
            let many = "Too many requests from one address, or with the keys of one client";
            answers.push(("429", many));
        }
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
        if self.is_limited && self.row.tells_limit() && !status.is_redirection() {
            fields.push(("RateLimit-Policy", "RateLimitPolicy"));
            fields.push(("RateLimit", "RateLimit"));
        }
        if is_error && self.has_page(status) {
            fields.push(("Vary", "VaryAccept"));
            fields.push(("Content-Security-Policy", "PagePolicy"));
        }
        if self.origins != Origins::None {
            fields.push(("Access-Control-Allow-Origin", "AllowedOrigin"));
            fields.push(("Access-Control-Expose-Headers", "ExposedFields"));
        }
        if self.origins == Origins::Some {
            fields.push(("Vary", "VaryOrigin"));
        }
        fields
    }

    fn has_page(&self, status: StatusCode) -> bool {
        self.row.page && page::of_status(status, "").is_some()
    }
}

/// Returns the rate limits of an operation: by address, and by key if clients can have keys.
fn rates(creates: bool, config: &ServeArgs) -> Vec<Rate> {
    let rate = |rates: Rates| match creates {
        true => rates.shorten,
        false => rates.requests,
    };
    let by_key = has_keys(config).then(|| rate(Rates::by_key(config)));
    let by_address = rate(Rates::by_address(config));
    [by_address].into_iter().chain(by_key).collect()
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
pub(super) fn fields(config: &ServeArgs) -> Value {
    // An operation without any limit does not name these fields.
    let is_told = [false, true].into_iter().all(|creates| {
        let rates = rates(creates, config);
        let on = rates.iter().filter(|rate| rate.requests > 0).count();
        on == 0 || on == rates.len()
    });
    json!({
        "NoStore": field(true, "No cache keeps the answer", json!({"type": "string", "const": "no-store"})),
        "RetryAfter": field(true, "The seconds after which a retry is useful", json!({"type": "integer", "minimum": 1})),
        "Challenge": field(true, "The challenge (RFC 6750)", text("^Bearer")),
        "ScopeChallenge": field(false, "The challenge with the scope that a key needs (RFC 6750)", text("^Bearer")),
        "RateLimitPolicy": field(
            is_told,
            "The quota `q` and its window `w` in seconds (draft-ietf-httpapi-ratelimit-headers-10)",
            text("^\"(shorten|requests)\";q=[0-9]+;w=[0-9]+$"),
        ),
        "RateLimit": field(
            is_told,
            "What is left of the quota, `r`, and the seconds `t` until it is whole again",
            text("^\"(shorten|requests)\";r=[0-9]+;t=[0-9]+$"),
        ),
        "VaryAccept": field(true, "The answer depends on `Accept`", text("accept")),
        "VaryOrigin": field(true, "The answer depends on `Origin`", text("origin")),
        "PagePolicy": field(false, "The policy of a page", text("^default-src 'none'")),
        "AllowedOrigin": field(false, "The origin whose scripts may read the answer", text("")),
        "ExposedFields": field(false, "The header fields that scripts may read", text("")),
    })
}

fn field(is_required: bool, description: &str, schema: Value) -> Value {
    json!({"description": description, "required": is_required, "schema": schema})
}

/// Returns the schema of a text with a part of this form.
fn text(pattern: &str) -> Value {
    match pattern {
        "" => json!({"type": "string"}),
        pattern => json!({"type": "string", "pattern": pattern}),
    }
}
