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
    routing::{delete, get, post, put},
};
use serde::Serialize;
use serde_json::json;

use crate::{VERSION, auth::ApiKey, error::Error, store::Store};

/// Returns all routes. Probes and the version need no key.
pub fn router(store: Arc<Store>, key: ApiKey) -> Router {
    let guarded = Router::new()
        .route("/collections", get(collections::list))
        .route(
            "/collections/{name}",
            get(collections::info)
                .put(collections::create)
                .delete(collections::delete),
        )
        .route("/collections/{name}/exists", get(collections::exists))
        .route("/collections/{name}/index", put(collections::create_index))
        .route(
            "/collections/{name}/index/{field}",
            delete(collections::delete_index),
        )
        .route(
            "/collections/{name}/points",
            put(points::upsert).post(points::fetch),
        )
        .route("/collections/{name}/points/{id}", get(points::one))
        .route("/collections/{name}/points/delete", post(points::delete))
        .route("/collections/{name}/points/count", post(points::count))
        .route("/collections/{name}/points/scroll", post(points::scroll))
        .route("/collections/{name}/points/query", post(points::query))
        .route("/collections/{name}/points/search", post(points::search))
        .fallback(|| async { StatusCode::NOT_FOUND })
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
