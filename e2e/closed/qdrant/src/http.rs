//! The HTTP API: the routes, and the envelope of every answer.

mod body;
mod collections;
mod points;

use std::{sync::Arc, time::Instant};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use serde::Serialize;
use serde_json::json;

use crate::{VERSION, auth::ApiKey, error::Error, store::Store};

/// Returns all routes. Probes and the version need no key. Any other request is answered with 404, whether its path is
/// unknown or only its method.
pub fn router(store: Arc<Store>, key: ApiKey) -> Router {
    let unknown = || async { StatusCode::NOT_FOUND };
    let guarded = Router::new()
        .route(
            "/collections/{name}",
            get(collections::info)
                .put(collections::create)
                .delete(collections::delete),
        )
        .route("/collections/{name}/points", put(points::upsert))
        .route("/collections/{name}/points/count", post(points::count))
        .route("/collections/{name}/points/query", post(points::query))
        .route("/collections/{name}/points/search", post(points::search))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(store)
        .layer(middleware::from_fn_with_state(key, guard));
    Router::new()
        .route(
            "/",
            get(|| async {
                Json(json!({"title": "qdrant - vector search engine", "version": VERSION}))
            }),
        )
        .route("/healthz", get(|| async { "healthz check passed" }))
        .route("/livez", get(|| async { "healthz check passed" }))
        .route("/readyz", get(|| async { "all shards are ready" }))
        .merge(guarded)
}

async fn guard(State(key): State<ApiKey>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    match key.check(|name| headers.get(name)?.to_str().ok()) {
        Ok(()) => next.run(request).await,
        Err(reason) => (StatusCode::UNAUTHORIZED, reason).into_response(),
    }
}

#[derive(Serialize)]
struct Envelope<T> {
    result: T,
    status: &'static str,
    time: f64,
}

/// Runs `work`, which uses files, on a thread that may block, and wraps its result in the envelope.
async fn answer<T>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Response
where
    T: Serialize + Send + 'static,
{
    let begun = Instant::now();
    let result = tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::Internal(error.to_string())));
    let time = begun.elapsed().as_secs_f64();
    match result {
        Ok(result) => Json(Envelope {
            result,
            status: "ok",
            time,
        })
        .into_response(),
        Err(error) => refusal(&error, time),
    }
}

fn refusal(error: &Error, time: f64) -> Response {
    let body = json!({"status": {"error": error.to_string()}, "time": time});
    (error.http_status(), Json(body)).into_response()
}
