//! Management. Every route needs a key with the scope `admin`, also on a stack whose other routes need none.

pub mod dead_letters;
pub mod links;

use axum::{
    Json,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header::CACHE_CONTROL};
use serde::Serialize;

use crate::{auth, error::Error};

/// Returns the name of the client. These routes have none without: their scope is always protected.
fn client(request: &Request) -> Result<String, Error> {
    let name = auth::client_of(request).map(str::to_owned);
    name.ok_or_else(|| Error::Internal("management without a client".to_owned()))
}

/// Returns a response that no cache keeps.
fn private(body: impl Serialize) -> Response {
    let no_store = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
    ([no_store], Json(body)).into_response()
}
