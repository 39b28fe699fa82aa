//! The OpenAPI document of the public routes.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header::CONTENT_TYPE};

use crate::state::AppState;

/// Returns the OpenAPI 3.1 description of this API.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", responses((status = 200, description = "This document", body = Object, content_type = "application/json")))]
pub async fn openapi(State(state): State<AppState>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], state.openapi.clone()).into_response()
}
