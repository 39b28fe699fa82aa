//! Parsing of bodies and query parameters.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::refusal;
use crate::error::Error;

/// A JSON body, refused with the messages of the real server.
pub struct Body<T>(pub T);

impl<T, S> FromRequest<S> for Body<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let declared = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        if !declared.is_some_and(is_json) {
            return Err(refusal(&Error::ContentType, 0.0));
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(IntoResponse::into_response)?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| refusal(&Error::Format(error.to_string()), 0.0))
    }
}

fn is_json(content_type: &str) -> bool {
    content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The query parameters of a change. Changes are always applied at once; only the answer differs.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Update {
    #[serde(default)]
    wait: bool,
}

/// The answer to a change.
#[derive(Debug, Serialize)]
pub struct Updated {
    operation_id: u64,
    status: &'static str,
}

impl Update {
    /// Returns the answer to the change with this number.
    pub fn answer(self, operation_id: u64) -> Updated {
        let status = if self.wait {
            "completed"
        } else {
            "acknowledged"
        };
        Updated {
            operation_id,
            status,
        }
    }
}
