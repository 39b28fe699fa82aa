//! Who answers.

use axum::{Json, extract::State};
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
