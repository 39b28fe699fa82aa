//! All routes of the application, in one place.

use axum::{
    Router,
    middleware::{from_fn, from_fn_with_state},
    routing::{MethodRouter, get, post},
};
use shortener_common::internal;

use crate::{
    auth::ManagementKey,
    error::Error,
    observe,
    routes::{
        admin::{audit, clicks, clients, dead_letters, links, overview, transfer, webhooks},
        console, docs, health, jobs, metrics, openapi, qr, redirect, short_links, shorten,
    },
    state::AppState,
};

/// Returns the handlers of the public port, each with its template. The preview of a link has none: the router has no
/// pattern for a suffix, so [`redirect::follow`] passes it on. Nor have links with arguments, whose pattern would fit the
/// paths of unknown routes: [`crate::shortcut`] follows them all.
pub(crate) fn handlers() -> [(&'static str, MethodRouter<AppState>); 36] {
    [
        ("/health", get(health::health)),
        ("/metrics", get(metrics::public)),
        ("/shorten", post(shorten::shorten)),
        ("/jobs", post(jobs::enqueue)),
        ("/jobs/{id}", get(jobs::job)),
        (
            "/docs/{id}",
            get(docs::get).put(docs::put).delete(docs::delete),
        ),
        ("/docs/query", post(docs::query)),
        ("/api/admin/overview", get(overview::overview)),
        ("/api/admin/links", get(links::list).post(links::create)),
        (
            "/api/admin/links/{code}",
            get(links::get).patch(links::change).delete(links::delete),
        ),
        ("/api/admin/links/{code}/disable", post(links::disable)),
        ("/api/admin/links/{code}/enable", post(links::enable)),
        ("/api/admin/links/{code}/clicks", get(clicks::of_link)),
        ("/api/admin/clicks/top", get(clicks::top)),
        ("/api/admin/dead-letters", get(dead_letters::list)),
        ("/api/admin/dead-letters/{id}", get(dead_letters::get)),
        ("/api/admin/dead-letters/replay", post(dead_letters::replay)),
        ("/api/admin/dead-letters/drop", post(dead_letters::remove)),
        ("/api/admin/audit", get(audit::list)),
        ("/api/links/{code}/qr.svg", get(qr::svg)),
        ("/api/links/{code}/qr.png", get(qr::png)),
        ("/api/admin/export/links", get(transfer::export)),
        ("/api/admin/import/links", post(transfer::import)),
        ("/api/admin/transfer", post(clients::transfer)),
        ("/api/admin/erase", post(clients::erase)),
        ("/api/admin/webhooks", get(webhooks::receivers)),
        ("/api/admin/webhooks/deliveries", get(webhooks::deliveries)),
        (
            "/api/admin/webhooks/deliveries/{id}/retry",
            post(webhooks::retry),
        ),
        (
            "/api/admin/webhooks/deliveries/retry",
            post(webhooks::retry_all),
        ),
        ("/openapi.json", get(openapi::openapi)),
        ("/console", get(console::open)),
        ("/console/", get(console::file)),
        ("/console/{file}", get(console::file)),
        ("/console/vendor/{file}", get(console::file)),
        ("/", get(redirect::root)),
        ("/{code}", get(redirect::follow)),
    ]
}

/// Returns the router of the public port.
pub fn public(state: AppState) -> Router {
    let router = handlers()
        .into_iter()
        .fold(Router::new(), |router, (template, handler)| {
            router.route(template, handler)
        });
    router
        .fallback(|| async { Error::NotFound })
        .layer(from_fn_with_state(state.clone(), observe::public))
        .with_state(state)
}

/// Returns the router of the internal port: probes and metrics, neither counted nor logged.
pub fn internal(state: AppState) -> Router {
    internal::router(state)
        .fallback(|| async { Error::NotFound })
        .layer(from_fn(observe::internal))
}

/// Returns the router of the management port, for requests with this key.
pub fn management(state: AppState, key: ManagementKey) -> Router {
    Router::new()
        .route("/links/apply", post(short_links::apply))
        .route("/links/release", post(short_links::release))
        .fallback(|| async { Error::NotFound })
        .layer(from_fn_with_state(
            (state.clone(), key),
            observe::management,
        ))
        .with_state(state)
}
