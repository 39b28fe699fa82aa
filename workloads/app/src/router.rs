//! All routes of the application, in one place.

use axum::{
    Router,
    body::Bytes,
    middleware::{from_fn, from_fn_with_state},
};
use shortener_common::internal;
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

use crate::{
    config::ServeArgs,
    error::Error,
    observe,
    routes::{
        admin::{dead_letters, links},
        docs, health, jobs, metrics, openapi, preview, redirect, shorten,
    },
    state::AppState,
};

/// Returns the routes of the public port with their documentation.
fn documented() -> OpenApiRouter<AppState> {
    let info = InfoBuilder::new()
        .title("Link shortener")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Creates short codes for URLs and redirects them. The gateway also has `/api/health`, `/api/metrics`, `/api/shorten`, `/api/jobs` and `/api/docs/…`, and links under `/api/links/{code}`. The routes below `/api/admin` always need a key with the scope `admin`."));
    let router = OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info.build()).build())
        .routes(routes!(health::health))
        .routes(routes!(metrics::public))
        .routes(routes!(shorten::shorten))
        .routes(routes!(jobs::enqueue))
        .routes(routes!(jobs::job))
        .routes(routes!(docs::put, docs::get, docs::delete))
        .routes(routes!(docs::query))
        .routes(routes!(links::list, links::create))
        .routes(routes!(links::get, links::change, links::delete))
        .routes(routes!(links::disable))
        .routes(routes!(links::enable))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::get))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(dead_letters::remove))
        .routes(routes!(openapi::openapi))
        .routes(routes!(redirect::follow))
        .routes(routes!(redirect::root));
    with_previews(router)
}

/// Adds the documentation of previews. Redirects hand these requests on, because the router has no pattern for a
/// suffix.
fn with_previews(mut router: OpenApiRouter<AppState>) -> OpenApiRouter<AppState> {
    let (schemas, paths, _): UtoipaMethodRouter<AppState> = routes!(preview::preview);
    let document = router.get_openapi_mut();
    document.paths.merge(paths);
    let components = document.components.get_or_insert_default();
    components.schemas.extend(schemas);
    router
}

/// Returns the router of the public port.
pub fn public(state: AppState) -> Router {
    let (router, _) = documented().split_for_parts();
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

/// Returns the OpenAPI description of the public port, as the handlers give it.
#[must_use]
pub fn openapi() -> OpenApi {
    documented().split_for_parts().1
}

/// Returns the OpenAPI document of a service with these settings as JSON.
#[must_use]
pub fn openapi_document(config: &ServeArgs) -> Bytes {
    crate::openapi::complete(openapi(), config)
        .to_string()
        .into()
}
