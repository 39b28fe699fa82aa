//! The message broker: connecting to it, its topology, the format of a message, and the tasks that need no key.

pub mod job;
pub mod origin;
pub mod public_tasks;
pub mod topology;

use std::{io, time::Duration};

use lapin::{
    Connection, ConnectionProperties,
    runtime::default_runtime,
    tcp::{OwnedIdentity, OwnedTLSConfig},
    uri::AMQPUri,
};
use tokio::time::{sleep, timeout};

use crate::{
    backoff::Backoff,
    tls::{self, ClientTls},
};

/// The timeout of a connection attempt, and of every operation that is not a publication.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The heartbeat timeout in seconds: after that much silence, either side considers the other one dead.
const HEARTBEAT: u16 = 10;

/// Backoff between connection attempts.
const RECONNECT: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
};

/// The backoff of a connection that is re-established without a limit on attempts.
#[derive(Debug, Default)]
pub struct ReconnectBackoff {
    /// Consecutive failures.
    failures: u32,
    last_reason: String,
}

impl ReconnectBackoff {
    /// Logs the loss of the connection, or an attempt that failed for another reason than the last one. Returns the
    /// pause before the next attempt.
    pub fn failed(&mut self, error: &lapin::Error, was_up: bool) -> Duration {
        let reason = tls::explained(error);
        if was_up || reason != self.last_reason {
            tracing::warn!(
                event = "queue_unavailable",
                error.message = reason,
                "queue_unavailable"
            );
            self.last_reason = reason;
        }
        self.failures = if was_up {
            1
        } else {
            self.failures.saturating_add(1)
        };
        RECONNECT.random_pause(self.failures)
    }
}

/// The address of a broker, and the certificates for it.
#[derive(Clone, Debug)]
pub struct Broker {
    /// The address, with credentials.
    pub uri: AMQPUri,
    /// The certificates, which are used if the scheme is `amqps`.
    pub tls: ClientTls,
}

/// Connects once; the caller retries. The broker's management UI shows the connection as `name`.
///
/// # Errors
/// Fails if the broker is unreachable, does not answer, or rejects the credentials, or if its certificate is refused.
pub async fn connect(broker: &Broker, name: &str) -> lapin::Result<Connection> {
    let Broker { mut uri, tls } = broker.clone();
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    // Automatic recovery stays off: the library would declare a topology again that may have been deleted on
    // purpose.
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let config = OwnedTLSConfig {
        identity: tls.identity.map(|identity| OwnedIdentity::PKCS8 {
            pem: identity.certificate.into_bytes(),
            key: identity.key.into_bytes(),
        }),
        cert_chain: tls.authorities,
    };
    let runtime = default_runtime()?;
    let connection = Connection::connect_uri_with_config(uri, properties, config, runtime);
    with_timeout(OPERATION_TIMEOUT, connection).await
}

/// The interval at which [`lost`] checks the connection.
const LOOK: Duration = Duration::from_secs(1);

/// Completes once the connection is lost. Every wait for the broker has to be combined with it, because a loss does
/// not always cause an error: a consumer that registers while the connection breaks gets none, and neither does a
/// client that sends nothing.
pub async fn lost(connection: &Connection) -> lapin::Error {
    while connection.status().connected() {
        sleep(LOOK).await;
    }
    io::Error::other("the connection to the broker was lost").into()
}

/// Runs an operation with a timeout.
///
/// # Errors
/// Returns the error of the operation, or an I/O error of the kind `TimedOut`.
pub async fn with_timeout<T>(
    at_most: Duration,
    operation: impl Future<Output = lapin::Result<T>>,
) -> lapin::Result<T> {
    timeout(at_most, operation).await.unwrap_or_else(|_| {
        let silence = format!("no answer within {} s", at_most.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, silence).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_worked_is_made_again_quickly_and_one_that_never_did_ever_more_slowly() {
        let error: lapin::Error = io::Error::other("gone").into();
        let mut backoff = ReconnectBackoff::default();
        for failure in 1..100 {
            let pause = backoff.failed(&error, false);
            assert!(pause >= RECONNECT.pause(failure, 0.0) && pause <= RECONNECT.longest);
        }
        assert!(backoff.failed(&error, true) <= RECONNECT.first);
    }
}
