//! Connecting to the broker: the TCP connection and TLS, then the handshake of the library on it.
//!
//! The library leaves two kinds of connections open that nobody uses any more. A handshake runs on a thread, which waits for
//! the broker without a limit. And a subscription that is given up before the broker has answered keeps its channel, the
//! connection, and the jobs that the broker sends on it. So this module makes the TCP connection itself, and shuts it down.

use std::{
    io,
    net::{Shutdown, TcpStream},
    ops::Deref,
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

/// A connection to the broker. It is shut down when this is dropped, even if it was not closed before: the broker then gives
/// what is not acknowledged to others.
#[derive(Debug)]
pub struct BrokerConnection {
    connection: Connection,
    _socket: Socket,
}

impl Deref for BrokerConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Connects once; the caller retries. The broker's management UI shows the connection as `name`.
///
/// # Errors
/// Fails if the broker is unreachable, does not answer, or rejects the credentials, or if its certificate is refused.
pub async fn connect(broker: &Broker, name: &str) -> lapin::Result<BrokerConnection> {
    with_timeout(OPERATION_TIMEOUT, attempt(broker, name)).await
}

async fn attempt(broker: &Broker, name: &str) -> lapin::Result<BrokerConnection> {
    let Broker { mut uri, tls } = broker.clone();
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    let runtime = default_runtime()?;
    let host = uri.authority.host.clone();
    let addresses = runtime.to_socket_addrs((host.clone(), uri.authority.port));
    let stream = AsyncTcpStream::connect(&runtime, addresses).await?;
    let AsyncTcpStream::Plain(plain) = &stream else {
        return Err(io::Error::other("the connection has TLS already").into());
    };
    let socket = Socket::of(plain.get_ref())?;
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
    Ok(BrokerConnection {
        connection: Connection::connector(uri, runtime, take, properties).await?,
        _socket: socket,
    })
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

/// The socket of a connection, which is shut down when this is dropped.
#[derive(Debug)]
struct Socket(TcpStream);

impl Socket {
    fn of(stream: &impl AsFd) -> io::Result<Self> {
        Ok(Self(stream.as_fd().try_clone_to_owned()?.into()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // It fails if the connection has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
