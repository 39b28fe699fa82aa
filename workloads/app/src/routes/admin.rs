//! Management. Every route needs a key with a scope for it, also on a stack whose other routes need none.

pub mod audit;
pub mod clicks;
pub mod clients;
pub mod dead_letters;
pub mod links;
pub mod overview;
pub mod transfer;
pub mod webhooks;

use axum::{
    Json,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header::CACHE_CONTROL};
use serde::Serialize;
use serde_json::Value;
use url::form_urlencoded;

use crate::{
    auth::Client, error::Error, faults::Faults, rights::Found, state::SharedState, store::MAX_TEXT,
};

/// The maximum number of items on a page.
const MAX_PAGE: usize = 100;

/// Returns the client. These routes have none without: their scope is always protected.
fn caller(request: &Request) -> Result<&Client, Error> {
    let client = request.extensions().get();
    client.ok_or_else(|| Error::Internal("management without a client".to_owned()))
}

/// Returns the name of the client.
fn client(request: &Request) -> Result<String, Error> {
    caller(request).map(|client| client.name.to_string())
}

/// Returns what was looked for.
///
/// # Errors
/// Fails if the link does not exist, or the rights of the client do not include it.
fn found<T>(state: &SharedState, found: Found<T>) -> Result<T, Error> {
    match found {
        Found::Some(found) => Ok(found),
        Found::Foreign => Err(state.guard.foreign_link()),
        Found::Unknown => Err(Error::NotFound),
    }
}

/// Returns a response that no cache keeps.
fn private(body: impl Serialize) -> Response {
    let no_store = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
    ([no_store], Json(body)).into_response()
}

/// Returns the values of these parameters of a query, which has no others.
pub(super) fn parameters<const N: usize>(
    query: Option<&str>,
    names: [&'static str; N],
    faults: &mut Faults,
) -> [Option<String>; N] {
    let mut values = [const { None }; N];
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match names.iter().position(|known| *known == name) {
            Some(place) if values[place].is_none() => values[place] = Some(value.into_owned()),
            Some(place) => faults.add(names[place], "must be there once"),
            None => {
                let rule = format!("has only the parameters {}", names.join(", "));
                faults.add("query", rule)
            }
        }
    }
    values
}

/// Returns the text of a field for the operators of the service.
///
/// # Errors
/// Fails with the rule if the value is none.
fn text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => plain_text(&text),
        _ => Err("must be a string".to_owned()),
    }
}

/// Returns a text that a line of a log or of a terminal shows as it is.
///
/// # Errors
/// Fails with the rule if the text is empty or too long, or has control characters.
pub fn plain_text(text: &str) -> Result<String, String> {
    let is_plain = !text.chars().any(char::is_control);
    if is_plain && (1..=MAX_TEXT).contains(&text.chars().count()) {
        return Ok(text.to_owned());
    }
    let rule = format!("must be 1 to {MAX_TEXT} characters without control characters");
    Err(rule)
}

/// Returns the reason for a change, if there is one.
fn reason(value: Option<Value>, faults: &mut Faults) -> Option<String> {
    faults.value("reason", value.map(text).transpose())
}

/// Returns the number of items on a page.
fn page_size(limit: Option<String>, faults: &mut Faults) -> usize {
    page_size_up_to(MAX_PAGE, limit, faults)
}

/// Returns the number of items on a page, which has at most `most` and by default.
fn page_size_up_to(most: usize, limit: Option<String>, faults: &mut Faults) -> usize {
    let Some(limit) = limit else {
        return most;
    };
    let number = limit.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    let rule = || format!("must be a whole number from 1 to {most}");
    faults.value("limit", number.ok_or_else(rule))
}
