//! Who answers, and the probes of the cluster.

use axum::{Json, extract::State};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::AppState;

/// The answer of `GET /health`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// The identity of the replica that answered.
    #[schema(example = "demo-app-5d9c7b8f6-x2k4q")]
    host: String,
    /// The part of the stack that answered.
    #[schema(example = "app")]
    role: &'static str,
}

/// Tells which replica answers.
#[utoipa::path(get, path = "/health", operation_id = "health", responses((status = 200, description = "The replica is alive", body = Health)))]
pub async fn health(State(state): State<AppState>) -> Json<Health> {
    Json(Health {
        host: state.host.clone(),
        role: "app",
    })
}

/// The process can answer at all.
pub async fn livez() -> &'static str {
    "ok\n"
}

/// Whether the replica wants traffic. The database does not matter here: without it every replica would leave at
/// once, and clients would get no answer instead of a clear one.
pub async fn readyz(State(state): State<AppState>) -> (StatusCode, &'static str) {
    if state.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}
