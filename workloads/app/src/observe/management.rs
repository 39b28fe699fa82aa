//! What all requests of the management port have in common: the key and the time limit before the handler, and the problem
//! body after it. They are neither counted nor logged, except for a fault of the service.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;

use super::{complete, lifecycle::in_time};
use crate::{auth::ManagementKey, body::Deadline, state::AppState};

/// Wraps every request of the management port.
pub async fn management(
    State((state, key)): State<(AppState, ManagementKey)>,
    mut request: Request,
    next: Next,
) -> Response {
    let uri = request.uri().clone();
    let deadline = Deadline {
        start: Instant::now(),
        budget: state.config.request_timeout,
    };
    let response = match key.check(request.headers()) {
        Ok(()) => {
            request.extensions_mut().insert(deadline);
            in_time(deadline.end(), next.run(request)).await
        }
        Err(error) => error.into_response(),
    };
    let (response, failure) = complete(response, uri.path(), None);
    let failure = failure.filter(|_| response.status().is_server_error());
    if let Some(failure) = &failure {
        let (kind, reason) = failure.0.for_log();
        tracing::error!(
            event = "management_failed",
            url.path = uri.path(),
            error.r#type = kind,
            error.message = reason,
            "management_failed"
        );
    }
    response
}
