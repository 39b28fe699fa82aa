//! Background jobs, which need the queue profile.

use axum::extract::Request;

use crate::{
    body,
    error::{Error, Problem},
};

/// The largest job in bytes.
pub const MAX_BODY: usize = 64 * 1024;

/// Accepts a background job when the queue profile is enabled.
#[utoipa::path(
    post,
    path = "/jobs",
    operation_id = "enqueue",
    responses(
        (status = 413, description = "The body is too large", body = Problem, content_type = "application/problem+json"),
        (status = 501, description = "The queue profile is not enabled", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn enqueue(request: Request) -> Error {
    // The body is taken off the connection, so that the proxy in front can go on using it.
    match body::discard(request, MAX_BODY).await {
        Ok(()) => Error::ProfileDisabled("queue"),
        Err(error) => error,
    }
}
