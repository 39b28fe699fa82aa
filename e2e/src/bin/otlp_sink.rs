//! A stand-in for a telemetry backend: receives OTLP over gRPC, and returns the received records over HTTP.
//!
//! - `GET /traces/<trace_id>`: the spans of a trace as a JSON list.
//! - `GET /logs?trace_id=<trace_id>`: the log records of a trace as a JSON list.
//! - `PUT /mode/taking`, `/mode/refusing`, `/mode/frozen`: sets the behavior of the OTLP server.
//! - `GET /livez`

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::{get, put},
};
use serde::Deserialize;
use serde_json::Value;
use shortener_testing::otlp::{Mode, Sink};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

#[derive(Deserialize)]
struct OfTrace {
    trace_id: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    if std::env::args().len() > 1 {
        println!("usage: otlp-sink (OTLP over gRPC on port 4317, HTTP on port 8080)");
        return Ok(());
    }
    let sink = Sink::default();
    let routes = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/traces/{trace_id}", get(traces))
        .route("/logs", get(logs))
        .route("/mode/{mode}", put(behave))
        .with_state(sink.clone());
    let grpc = sink.serve(TcpListener::bind("0.0.0.0:4317").await?);
    let http = axum::serve(TcpListener::bind("0.0.0.0:8080").await?, routes);
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        () = grpc => {}
        result = http.into_future() => result?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn traces(State(sink): State<Sink>, Path(trace_id): Path<String>) -> Json<Vec<Value>> {
    Json(sink.spans(&trace_id))
}

async fn logs(State(sink): State<Sink>, Query(query): Query<OfTrace>) -> Json<Vec<Value>> {
    Json(sink.logs(&query.trace_id))
}

async fn behave(State(sink): State<Sink>, Path(mode): Path<String>) -> StatusCode {
    let mode = match mode.as_str() {
        "taking" => Mode::Taking,
        "refusing" => Mode::Refusing,
        "frozen" => Mode::Frozen,
        _ => return StatusCode::NOT_FOUND,
    };
    sink.set(mode);
    StatusCode::NO_CONTENT
}
