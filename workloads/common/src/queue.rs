//! The message broker: connecting to it, its topology, the format of a message, and the tasks that need no key.

mod connecting;
pub mod dead_letter;
pub mod decision;
pub mod job;
pub mod origin;
pub mod public_tasks;
pub mod topology;

use std::{io, time::Duration};

use lapin::{Connection, ErrorKind, uri::AMQPUri};
use tokio::time::{sleep, timeout};

pub use self::connecting::{BrokerConnection, connect};
use crate::{
    backends::Fault,
    backoff::Backoff,
    tls::{self, ClientTls},
};

/// The timeout of a connection attempt, and of every operation that is not a publication.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The heartbeat timeout in seconds that this side asks for, unless the address has another one. Both sides use the lower one
/// of the two. This side takes the broker for dead after twice that much silence.
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

/// The reply code with which a broker refuses the credentials, or a right of the user.
const ACCESS_REFUSED: u16 = 403;
/// The reply code with which a broker refuses the virtual host.
const NOT_ALLOWED: u16 = 530;

/// Returns the fault behind an error; `None` if the broker answers, and with something else than a refusal.
pub fn fault(error: &lapin::Error) -> Option<Fault> {
    let ErrorKind::ProtocolError(refusal) = error.kind() else {
        return Some(Fault::of_connection(error));
    };
    match refusal.get_id() {
        // RabbitMQ has one code for a virtual host that is missing and for one that the user must not use.
        NOT_ALLOWED if refusal.get_message().as_str().contains("not found") => {
            Some(Fault::NotFound)
        }
        ACCESS_REFUSED | NOT_ALLOWED => Some(Fault::Denied),
        _ => None,
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
    use lapin::protocol::AMQPError;

    use super::*;

    #[test]
    fn a_refusal_of_the_broker_is_told_apart_from_silence() {
        let refusal = |code: u16, text: &str| {
            let refusal = AMQPError::from_id(code, text.into()).unwrap();
            fault(&ErrorKind::ProtocolError(refusal).into())
        };
        let login = "ACCESS_REFUSED - Login was refused";
        assert_eq!(refusal(403, login), Some(Fault::Denied));
        let missing = "NOT_ALLOWED - vhost links not found";
        assert_eq!(refusal(530, missing), Some(Fault::NotFound));
        let forbidden = "NOT_ALLOWED - access to vhost 'links' refused for user 'guest'";
        assert_eq!(refusal(530, forbidden), Some(Fault::Denied));
        assert_eq!(refusal(406, "PRECONDITION_FAILED"), None);
        let lost: lapin::Error = io::Error::from(io::ErrorKind::ConnectionReset).into();
        assert_eq!(fault(&lost), Some(Fault::Unreachable));
    }

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
