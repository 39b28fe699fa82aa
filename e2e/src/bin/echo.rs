//! A stand-in for the app that answers every request with the request as it received it.
//!
//! It has the app's ports, probes and subcommands, so that a stack can run it through `spec.app.image`.

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{HeaderMap, Method, Uri},
    routing::get,
};
use shortener_e2e::Echoed;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
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
    let public = Router::new()
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
