//! Connecting to the broker: the TCP connection and TLS, then the handshake of the library on it.
//!
//! The library runs a handshake on a thread, which waits for the broker without a limit, even if nobody waits for the
//! connection any more. So this module makes the TCP connection itself, and shuts it down if a handshake is given up.

use std::{
    io,
    net::{Shutdown, TcpStream},
    os::fd::AsFd,
};

use lapin::{
    AsyncTcpStream, Connection, ConnectionProperties,
    runtime::default_runtime,
    tcp::{OwnedIdentity, OwnedTLSConfig},
    uri::AMQPScheme,
};
use parking_lot::Mutex;

use super::{Broker, HEARTBEAT, OPERATION_TIMEOUT, with_timeout};
use crate::tls::ClientTls;

/// Connects once; the caller retries. The broker's management UI shows the connection as `name`.
///
/// # Errors
/// Fails if the broker is unreachable, does not answer, or rejects the credentials, or if its certificate is refused.
pub async fn connect(broker: &Broker, name: &str) -> lapin::Result<Connection> {
    with_timeout(OPERATION_TIMEOUT, attempt(broker, name)).await
}

async fn attempt(broker: &Broker, name: &str) -> lapin::Result<Connection> {
    let Broker { mut uri, tls } = broker.clone();
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    let runtime = default_runtime()?;
    let host = uri.authority.host.clone();
    let addresses = runtime.to_socket_addrs((host.clone(), uri.authority.port));
    let stream = AsyncTcpStream::connect(&runtime, addresses).await?;
    let AsyncTcpStream::Plain(plain) = &stream else {
        return Err(io::Error::other("the connection has TLS already").into());
    };
    let mut handshake = Handshake::on(plain.get_ref())?;
    let stream = match uri.scheme {
        AMQPScheme::AMQP => stream,
        AMQPScheme::AMQPS => stream.into_tls(&host, certificates(tls).as_ref()).await?,
    };
    // Automatic recovery stays off: the library would declare a topology again that may have been deleted on
    // purpose. Without it, the library takes one stream.
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let stream = Mutex::new(Some(stream));
    let take = async move |_, _| {
        let stream = stream.lock().take();
        stream.ok_or_else(|| io::Error::other("the connection was lost").into())
    };
    let ended = Connection::connector(uri, runtime, take, properties).await;
    handshake.socket = None;
    ended
}

fn certificates(tls: ClientTls) -> OwnedTLSConfig {
    OwnedTLSConfig {
        identity: tls.identity.map(|identity| OwnedIdentity::PKCS8 {
            pem: identity.certificate.into_bytes(),
            key: identity.key.into_bytes(),
        }),
        cert_chain: tls.authorities,
    }
}

/// A handshake. Its connection is shut down if this is dropped before the handshake has ended.
struct Handshake {
    /// The socket of the connection; `None` once the handshake has ended.
    socket: Option<TcpStream>,
}

impl Handshake {
    fn on(stream: &impl AsFd) -> io::Result<Self> {
        let socket = stream.as_fd().try_clone_to_owned()?;
        Ok(Self {
            socket: Some(socket.into()),
        })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            // It fails if the broker has closed the connection, which ends the handshake as well.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
