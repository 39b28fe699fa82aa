//! The health endpoint of the public port.

use axum::{Json, extract::State};
use serde::Serialize;

use crate::state::AppState;

/// The response of `GET /health`.
#[derive(Debug, Serialize)]
pub struct Health {
    /// Identity of the replica that answered.
    host: String,
    /// Component of the stack that answered.
    role: &'static str,
}

/// Returns the identity of the replica that answers.
pub async fn health(State(state): State<AppState>) -> Json<Health> {
    Json(Health {
        host: state.host.clone(),
        role: "app",
    })
}
