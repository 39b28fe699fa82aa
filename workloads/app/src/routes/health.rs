//! The health endpoint of the public port.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::AppState;

/// The response of `GET /health`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// Identity of the replica that answered.
    #[schema(example = "demo-app-5d9c7b8f6-x2k4q")]
    host: String,
    /// Component of the stack that answered.
    #[schema(example = "app")]
    role: &'static str,
}

/// Returns the identity of the replica that answers.
#[utoipa::path(get, path = "/health", operation_id = "health", responses((status = 200, description = "The replica is alive", body = Health)))]
pub async fn health(State(state): State<AppState>) -> Json<Health> {
    Json(Health {
        host: state.host.clone(),
        role: "app",
    })
}
