//! The operator's HTTP server: `/livez`, `/readyz` and `/metrics`.
//!
//! Both probes answer 200 on standby replicas too: a replica that waits for the Lease is healthy, and a rolling update
//! must not wait for it to lead. On the leader, `/readyz` answers 503 with the reasons while a watch that reconciles
//! depend on does not work. `/livez` stays 200, because a restart would not help.
//!
//! The connections are not served by `axum::serve`, which has no time limit for headers and none for the shutdown.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header::CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::server::{health::Health, metrics::Metrics};

/// Time limit for a client to send its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for open requests to finish after the stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed accept, so that a process without free file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 128;
/// Linux error number of "Address family not supported by protocol".
const EAFNOSUPPORT: i32 = 97;

/// Opens the server's socket. `[::]` accepts connections over IPv6 and IPv4, or over IPv4 alone on a machine without
/// IPv6.
///
/// # Errors
/// The address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
    let listener = match open(address) {
        Err(error) if error.raw_os_error() == Some(EAFNOSUPPORT) && address == any => {
            warn!("this machine has no IPv6: only IPv4 connections are accepted");
            open((Ipv4Addr::UNSPECIFIED, address.port()).into())?
        }
        opened => opened?,
    };
    info!(http.address = %listener.local_addr()?, "serving probes and metrics");
    Ok(listener)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // The node's default may be that an IPv6 socket accepts IPv6 connections only.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves requests until `stop` is cancelled, then lets the open requests finish.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    health: Health,
    stop: CancellationToken,
) {
    let open = GracefulShutdown::new();
    let router = router(metrics, health);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(error = %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(
                TokioIo::new(stream),
                TowerToHyperService::new(router.clone()),
            );
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(error = %error, "connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, open.shutdown())
        .await
        .is_err()
    {
        debug!("some connections were still open at the end");
    }
}

fn router(metrics: Metrics, health: Health) -> Router {
    let alive = async || text(StatusCode::OK, "ok\n");
    let ready = async move || match health.problems() {
        problems if problems.is_empty() => text(StatusCode::OK, "ok\n".to_owned()),
        problems => text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{}\n", problems.join("\n")),
        ),
    };
    let scrape = async move || match metrics.render() {
        Ok(page) => text(StatusCode::OK, page),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    };
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .fallback(async || text(StatusCode::NOT_FOUND, "not found\n"))
        .method_not_allowed_fallback(async || {
            text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n")
        })
}

fn text(status: StatusCode, body: impl IntoResponse) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    (status, [(CONTENT_TYPE, kind)], body).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        task::JoinHandle,
    };

    use super::*;

    struct Server {
        address: SocketAddr,
        health: Health,
        stop: CancellationToken,
        task: JoinHandle<()>,
    }

    async fn start() -> Server {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (metrics, health) = (Metrics::new().unwrap(), Health::default());
        let task = tokio::spawn(serve(listener, metrics, health.clone(), stop.clone()));
        Server {
            address,
            health,
            stop,
            task,
        }
    }

    async fn get(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!("{request} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn one_socket_takes_connections_of_both_families() {
        let listener = bind("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // A machine without IPv6 has fallen back to IPv4, so there is nothing else to check.
        if listener.local_addr().unwrap().is_ipv6() && open("[::1]:0".parse().unwrap()).is_ok() {
            TcpStream::connect(("::1", port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn probes_and_metrics_are_served_and_nothing_else() {
        let server = start().await;
        for (request, status) in [
            ("GET /livez", "200"),
            ("GET /readyz", "200"),
            ("GET /metrics", "200"),
            ("GET /", "404"),
            ("POST /livez", "405"),
        ] {
            let response = get(&server, request).await;
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status}")),
                "{request}: {response}"
            );
        }
        assert!(
            get(&server, "GET /metrics")
                .await
                .contains("shortener_operator_leader 0")
        );
    }

    #[tokio::test]
    async fn a_watch_that_does_not_work_makes_the_operator_unready_and_leaves_it_alive() {
        let server = start().await;
        let watch = server.health.expect("shortenerstacks in all namespaces");
        watch.fails("404: not served");
        let response = get(&server, "GET /readyz").await;
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
        let reason = "shortenerstacks in all namespaces could not be listed yet: 404: not served";
        assert!(response.contains(reason), "{response}");
        let response = get(&server, "GET /livez").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        watch.works();
        let response = get(&server, "GET /readyz").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }

    #[tokio::test]
    async fn stopping_closes_idle_connections_and_the_port() {
        let server = start().await;
        let mut idle = TcpStream::connect(server.address).await.unwrap();
        idle.write_all(b"GET /livez HTTP/1.1\r\nHost: operator\r\n\r\n")
            .await
            .unwrap();
        idle.read_exact(&mut [0; 12]).await.unwrap();
        server.stop.cancel();
        server.task.await.unwrap();
        idle.read_to_end(&mut Vec::new()).await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err());
    }
}
