//! A stand-in for the app that answers every request with the request as it received it.
//!
//! It has the app's ports, probes and subcommands, so that a stack can run it through `spec.app.image`.

use std::{collections::BTreeMap, env};

use axum::{
    Json, Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header::COOKIE},
    routing::get,
};
use shortener_e2e::{ASK, Echoed, SIGNED_IN};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match env::args().nth(1).as_deref() {
        Some("serve") => serve().await,
        Some("migrate") => Ok(()),
        _ => {
            println!("usage: echo serve | migrate");
            Ok(())
        }
    }
}

async fn serve() -> anyhow::Result<()> {
    // The test is about the gateway's body limit, so this server has a much larger one.
    let signed_in = signed_in()?;
    let public = Router::new()
        .route(
            ASK,
            get(async move |headers: HeaderMap| ask(&headers, signed_in)),
        )
        .fallback(echo)
        .layer(DefaultBodyLimit::max(16 * 1024 * 1024));
    let internal = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(|| async { "ok" }));
    let public = axum::serve(TcpListener::bind("0.0.0.0:3000").await?, public);
    let internal = axum::serve(TcpListener::bind("0.0.0.0:9090").await?, internal);
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = public.into_future() => result?,
        result = internal.into_future() => result?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Reads the headers that name a visitor who is signed in.
fn signed_in() -> anyhow::Result<HeaderMap> {
    let named = env::var(SIGNED_IN).unwrap_or_else(|_| "{}".to_owned());
    let named: BTreeMap<String, String> = serde_json::from_str(&named)?;
    let mut headers = HeaderMap::new();
    for (name, value) in named {
        headers.insert(HeaderName::try_from(name)?, value.try_into()?);
    }
    Ok(headers)
}

/// Answers as an authentication proxy that an ingress controller asks: whoever has a cookie is signed in.
fn ask(headers: &HeaderMap, signed_in: HeaderMap) -> (StatusCode, HeaderMap) {
    if headers.contains_key(COOKIE) {
        (StatusCode::ACCEPTED, signed_in)
    } else {
        (StatusCode::UNAUTHORIZED, HeaderMap::new())
    }
}

async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Json<Echoed> {
    let mut seen = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in &headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        seen.entry(name.to_string()).or_default().push(value);
    }
    Json(Echoed {
        method: method.to_string(),
        uri: uri.to_string(),
        headers: seen,
        body_bytes: body.len(),
    })
}
