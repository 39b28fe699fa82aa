//! The accept loop: bounded connections, deadlines on reading and writing, and a graceful end.

mod stream;

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use anyhow::Context;
use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
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
use tower::Service;

use crate::server::stream::{Phase, TimedStream};

/// The address at the other end of the connection, as a request extension. One of IPv4 is written as such.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Proxies keep idle connections for about a minute. Closing later than they do means that none of them sends a
/// request into a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(75);

/// The header of a request, beyond what the application answers politely.
const MAX_HEAD: usize = 40 * 1024;

/// Connections that the kernel keeps until they are accepted; its own limit may be lower.
const BACKLOG: i32 = 1024;

/// Linux' number of the error "Address family not supported by protocol".
const EAFNOSUPPORT: i32 = 97;

/// First and longest pause after the process ran out of file descriptors or memory.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connections open at the same time; further ones wait in the kernel's queue.
    pub max_connections: usize,
    /// How long the header of a request may take, from its first byte or from the start of the connection.
    pub header_timeout: Duration,
    /// How long a client may leave a response unread.
    pub write_timeout: Duration,
    /// How long requests in flight may take after the end was asked for.
    pub drain_timeout: Duration,
    /// Counts the open connections.
    pub open_connections: Gauge<u32, AtomicU32>,
}

/// Takes the socket of an address. `[::]` takes connections by IPv6 and IPv4, and only by IPv4 on a machine without IPv6.
///
/// # Errors
/// When the address is in use or not this machine's.
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

/// A kernel without IPv6 has no such sockets.
fn lacks_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // The node's default may be that a socket of IPv6 takes nothing else.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until `stop` completes, then lets requests in flight finish. Returns whether all of them did.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> bool {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(settings.max_connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            // A slot first: what cannot be served is not accepted either.
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, accept(&listener).await)
        };
        let (slot, (stream, peer)) = tokio::select! {
            biased;
            () = &mut stop => break,
            next = next => next,
        };
        let connection = graceful.watch(connection(stream, peer, router.clone(), &settings));
        let open = Open::new(&settings.open_connections);
        tokio::spawn(async move {
            // Errors are the client's: a broken connection or an unreadable request, answered as far as possible.
            let _ = connection.await;
            drop((open, slot));
        });
    }
    drop(listener);
    timeout(settings.drain_timeout, graceful.shutdown())
        .await
        .is_ok()
}

/// Accepts the next connection, however long the process lacks the means to.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let mut pause = BACKOFF.0;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, canonical(peer)),
            Err(error) if is_the_peer_s(&error) => {}
            Err(error) => {
                // Out of descriptors or memory: spinning would take the processor from those who could free some.
                tracing::error!(event = "accept_failed", error.message = %error, "accept_failed");
                sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
        }
    }
}

/// A socket of both families writes an address of IPv4 as `::ffff:a.b.c.d`.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Failures of one connection before it was accepted; the next one is not affected.
fn is_the_peer_s(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

type Connection<S> = http1::Connection<TokioIo<TimedStream>, S>;

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    settings: &Settings,
) -> Connection<
    impl hyper::service::HttpService<
        Incoming,
        ResBody = Body,
        Error = std::convert::Infallible,
        Future: Send,
    > + use<>,
> {
    // Responses are small and complete: waiting to merge packets only adds latency.
    let _ = stream.set_nodelay(true);
    let phase = Phase::default();
    let stream = TimedStream::new(
        stream,
        phase.clone(),
        settings.header_timeout,
        settings.write_timeout,
    );
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        phase.begin_request();
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let answered = router.clone().call(request);
        let phase = phase.clone();
        async move {
            let response = answered.await;
            phase.end_request();
            response
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        // TimedStream does this and more; hyper's timer would also close connections that are merely idle.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        // A client that closes its sending side early still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
}

/// Counts a connection for as long as it lives.
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

    /// The address of a client as the server sees it.
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
        // A machine without IPv6 has fallen back, which is all that can be asked of it.
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
