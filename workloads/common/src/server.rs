//! The accept loop: a bounded number of connections, timeouts for reads and writes, and a graceful shutdown.

mod alarm;
mod background;
mod body;
mod handler;
mod phase;
mod stream;

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use anyhow::Context;
use axum::body::Body;
use http::{HeaderValue, header::CONNECTION};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use prometheus_client::metrics::gauge::Gauge;
use socket2::{Domain, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

pub use self::{
    background::Background,
    handler::{Client, Handler, Request},
};
use self::{
    phase::{Phase, SharedPhase},
    stream::TimedStream,
};

/// The maximum size of a request head in bytes. It exceeds the limits of the app, so that the app can answer a head
/// that is too large with a complete error response.
const MAX_HEAD: usize = 32 * 1024;

/// The memory of a connection in bytes: a buffer for the largest head, one of 8 KiB to write, and its task with the request.
pub const PER_CONNECTION: usize = MAX_HEAD + 16 * 1024;

/// The maximum number of connections on an internal port: a few scrapers and the kubelet.
const INTERNAL_CONNECTIONS: usize = 64;

/// The number of connections that the kernel queues until they are accepted; its own limit may be lower.
const BACKLOG: i32 = 1024;

/// The Linux error number of "Address family not supported by protocol".
const EAFNOSUPPORT: i32 = 97;

/// The first and the longest pause after the process ran out of file descriptors or memory.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Maximum number of open connections. Others wait in the kernel until one ends.
    pub max_connections: usize,
    /// Time limit for a request head, counted from its first byte or from the start of the connection.
    pub header_timeout: Duration,
    /// Time limit for a client that does not read its response.
    pub write_timeout: Duration,
    /// Time limit for requests in flight after the shutdown began.
    pub drain_timeout: Duration,
    /// The number of open connections.
    pub open_connections: Gauge<u32, AtomicU32>,
}

impl ServerSettings {
    /// Returns the settings of an internal port with these timeouts for reads and writes.
    pub fn internal(header_timeout: Duration, write_timeout: Duration) -> Self {
        Self {
            max_connections: INTERNAL_CONNECTIONS,
            header_timeout,
            write_timeout,
            drain_timeout: Duration::from_secs(1),
            open_connections: Gauge::default(),
        }
    }
}

/// Returns the highest number of connections to a program with a public and an internal port.
pub fn most_connections(max_connections: usize) -> usize {
    max_connections + INTERNAL_CONNECTIONS
}

/// Opens the listening socket. `[::]` accepts IPv6 and IPv4, or only IPv4 on a machine without IPv6.
///
/// # Errors
/// Fails if the address is in use or does not belong to this machine.
pub fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = match open(address) {
        Err(error) if lacks_family(&error) && address == any_v6(address.port()) => {
            let only_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            tracing::warn!(event = "ipv6_unsupported", server.address = %only_v4, "ipv6_unsupported");
            open(only_v4)
        }
        opened => opened,
    };
    listener.with_context(|| format!("cannot listen on {address}"))
}

fn any_v6(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

/// Returns true if the kernel has no IPv6 sockets.
fn lacks_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // The node may be configured to restrict IPv6 sockets to IPv6.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until `stop` completes, then lets requests in flight finish. Returns true if all of them did.
pub async fn serve(
    listener: TcpListener,
    handler: impl Handler,
    settings: ServerSettings,
    stop: impl Future<Output = ()>,
) -> bool {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(settings.max_connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, accept(&listener).await)
        };
        let (place, (stream, peer)) = tokio::select! {
            biased;
            () = &mut stop => break,
            next = next => next,
        };
        let phase = SharedPhase::new();
        let stream = TimedStream::new(stream, phase.clone(), &settings);
        let client = Client::new(peer, phase);
        let connection = connection(stream, handler.clone(), client, Arc::clone(&places));
        let connection = graceful.watch(connection);
        let open = Open::new(&settings.open_connections);
        tokio::spawn(async move {
            // Only the client causes errors here: a broken connection or an unreadable request, answered as far as
            // possible.
            let _ = connection.await;
            drop((open, place));
        });
    }
    drop(listener);
    timeout(settings.drain_timeout, graceful.shutdown())
        .await
        .is_ok()
}

/// Accepts the next connection, and retries for as long as the process lacks the resources.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let mut pause = BACKOFF.0;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Responses are small and complete: waiting to merge packets only adds latency.
                let _ = stream.set_nodelay(true);
                return (stream, canonical(peer));
            }
            Err(error) if is_peer_error(&error) => {}
            Err(error) => {
                // Out of descriptors or memory: a busy loop would keep the CPU from the tasks that could release
                // some.
                accept_failed(&error);
                sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
        }
    }
}

fn accept_failed(error: &io::Error) {
    tracing::error!(event = "accept_failed", error.message = %error, "accept_failed");
}

/// Converts an IPv4 address from the form `::ffff:a.b.c.d` of a dual-stack socket.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Returns true if only this connection failed before it was accepted; the next one is not affected.
fn is_peer_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

type Connection<S> = http1::Connection<TokioIo<TimedStream>, S>;

fn connection<H: Handler>(
    stream: TimedStream,
    handler: H,
    client: Client,
    places: Arc<Semaphore>,
) -> Connection<
    impl hyper::service::HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send>
    + use<H>,
> {
    // What a request needs is counted by its connection alone: all cores would write one count for all.
    let shared = Arc::new((handler, client, places));
    let service = service_fn(move |request: Request| {
        let shared = Arc::clone(&shared);
        let body = request.body().size_hint().upper();
        shared.1.phase().begin_request(body);
        async move {
            let (handler, client, places) = &*shared;
            let mut response = handler.answer(request, client).await;
            let phase = client.phase();
            phase.set(Phase::Answered);
            // While others wait for a place, none is kept for a further request.
            if phase.is_unread() || places.available_permits() == 0 {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        // TimedStream does this and more; hyper's timer would also close connections that are merely idle.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        // The end of what a client sends is the only sign that it has left. Work for it is given up then.
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
}

/// Counts a connection until it is dropped.
struct Open(Gauge<u32, AtomicU32>);

impl Open {
    fn new(gauge: &Gauge<u32, AtomicU32>) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// Returns the address of a client as the server sees it.
    async fn seen(listener: &TcpListener, from: IpAddr) -> IpAddr {
        let to = SocketAddr::new(from, listener.local_addr().unwrap().port());
        let (client, (_, peer)) = tokio::join!(TcpStream::connect(to), accept(listener));
        client.unwrap();
        peer.ip()
    }

    #[tokio::test]
    async fn one_socket_takes_connections_of_both_families() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let v4 = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(seen(&listener, v4).await, v4);
        // On a machine without IPv6 the socket has fallen back to IPv4.
        if listener.local_addr().unwrap().is_ipv6() && open("[::1]:0".parse().unwrap()).is_ok() {
            let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
            assert_eq!(seen(&listener, v6).await, v6);
        }
    }

    #[tokio::test]
    async fn an_address_of_one_family_is_taken_as_it_stands() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(listener.local_addr().unwrap().is_ipv4());
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let taken = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address).unwrap_err().to_string();
        assert_eq!(error, format!("cannot listen on {address}"));
    }

    #[test]
    fn only_a_kernel_without_the_family_is_a_reason_to_do_without_it() {
        assert!(lacks_family(&io::Error::from_raw_os_error(EAFNOSUPPORT)));
        assert!(!lacks_family(&io::Error::from(io::ErrorKind::AddrInUse)));
        assert!(!lacks_family(&io::Error::from(
            io::ErrorKind::PermissionDenied
        )));
    }
}
