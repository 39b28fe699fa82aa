//! The lowest steps of the ladder: servers that answer every request with the same redirect. Each has one part of the app
//! more than the one before, so that the difference is the cost of that part.

use std::{convert::Infallible, future::pending, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::any,
};
use clap::{Args, ValueEnum};
use http::{
    HeaderValue, StatusCode,
    header::{CACHE_CONTROL, LOCATION},
};
use http_body_util::Empty;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use shortener_app::{
    metrics::{Answered, Metrics},
    route::{PREVIEW_SUFFIX, ROUTES, Route},
};
use shortener_common::{
    memory::{Buffer, Memory},
    server::{Cores, Settings, listen, serve as serve_by_app},
    trace::TraceContext,
};
use tokio::{net::TcpListener, process::Command, runtime::Builder, time::Instant};

use crate::{
    links::target,
    server::{End, Server, free_address, log_that_is_read},
};

/// The time limits of connections, as the app has them.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of connections, as the app has it.
const CONNECTIONS: usize = 10_000;

/// A step of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Hyper, with a task for each connection.
    Hyper,
    /// The app's accept loop, with its threads, places, phases and time limits of connections.
    Connections,
    /// The app's routes, through axum's router.
    Routes,
    /// The app's metrics of requests.
    Metrics,
}

/// The names of the steps as contenders.
pub const LOWEST: [(&str, Step); 4] = [
    ("hyper, one redirect", Step::Hyper),
    ("hyper, the app's connections", Step::Connections),
    ("hyper, the app's connections and routes", Step::Routes),
    (
        "hyper, the app's connections, routes and metrics",
        Step::Metrics,
    ),
];

/// The arguments of a server.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// The highest step that the server has.
    #[arg(value_enum)]
    pub step: Step,
    /// Its address.
    pub address: SocketAddr,
}

/// Starts the server of a step: this program, as another process.
///
/// # Errors
/// Fails if it does not start.
pub async fn start(step: Step) -> Result<Arc<Server>> {
    let address = free_address()?;
    let program = std::env::current_exe().context("cannot find the benchmark's own program")?;
    let step = step.to_possible_value().context("the step has no name")?;
    let mut command = Command::new(program);
    command.args(["step", step.get_name(), &address.to_string()]);
    Server::start(command, address, log_that_is_read()?, End::Kill).await
}

/// Serves until the process is killed: bare hyper on the usual runtime, and the others on the app's.
///
/// # Errors
/// Fails if the address is in use, or if a thread cannot be started.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut runtime = match arguments.step {
        Step::Hyper => Builder::new_multi_thread(),
        Step::Connections | Step::Routes | Step::Metrics => Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> Result<()> {
    let listener = listen(arguments.address)?;
    let location = HeaderValue::try_from(target(0))?;
    let router = match arguments.step {
        Step::Hyper => return serve_by_hyper(listener, location).await,
        Step::Connections => Router::new().fallback(answer),
        Step::Routes => routes(),
        Step::Metrics => routes().layer(from_fn_with_state(Arc::new(Metrics::default()), count)),
    };
    let memory = Memory::default();
    let settings = Settings {
        max_connections: CONNECTIONS,
        memory: memory.budget(Buffer::Connections),
        heads: memory.budget(Buffer::Heads),
        header_timeout: TIMEOUT,
        write_timeout: TIMEOUT,
        drain_timeout: TIMEOUT,
        open_connections: Default::default(),
        cores: Cores::all()?,
    };
    serve_by_app(listener, router.with_state(location), settings, pending()).await;
    Ok(())
}

async fn serve_by_hyper(listener: TcpListener, location: HeaderValue) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let location = location.clone();
        let service = service_fn(move |_: http::Request<Incoming>| {
            let answer = found(location.clone(), Empty::<Bytes>::new());
            async move { Ok::<_, Infallible>(answer) }
        });
        tokio::spawn(async move {
            // Only the client causes errors here.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Returns a router with the patterns of the app. It has none for previews.
fn routes() -> Router<HeaderValue> {
    let templates = ROUTES.iter().map(|row| row.template);
    let patterns =
        templates.filter(|path| path.starts_with('/') && !path.ends_with(PREVIEW_SUFFIX));
    let router = Router::new().fallback(answer);
    patterns.fold(router, |router, pattern| router.route(pattern, any(answer)))
}

async fn answer(State(location): State<HeaderValue>) -> Response {
    found(location, Body::empty())
}

/// Returns a redirect with the header fields of the app's.
fn found<B>(location: HeaderValue, body: B) -> http::Response<B> {
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Counts a request as the app does.
async fn count(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let (start, trace) = (Instant::now(), TraceContext::root());
    let template = request.extensions().get::<MatchedPath>();
    let route = Route::of(template.map(MatchedPath::as_str), request.uri().path());
    let method = request.method().clone();
    let response = next.run(request).await;
    metrics.request(&Answered {
        route,
        method: &method,
        status: response.status(),
        trace,
        start,
        duration: start.elapsed(),
    });
    response
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::{links::Popularity, load, requests::one_destination, server::free_address};

    #[tokio::test]
    async fn every_step_answers_every_request_with_the_same_redirect() {
        for step in Step::value_variants() {
            let (step, address) = (*step, free_address().unwrap());
            tokio::spawn(async move { serve(&Arguments { step, address }).await.unwrap() });
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
            let script = one_destination(Popularity::even(100));
            load::run(address, 2, 20, &script).await.unwrap();
        }
    }
}
