//! The message broker: connecting to it, what is declared there, and the form of a message.

pub mod job;
pub mod topology;

use std::{io, time::Duration};

use lapin::{Connection, ConnectionProperties, uri::AMQPUri};
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;

/// How long the broker may take to accept a connection, and to answer what is not a publication.
pub const ANSWER: Duration = Duration::from_secs(5);

/// Seconds of silence after which either side takes the other for dead.
const HEARTBEAT: u16 = 10;

/// Pauses between attempts to reach the broker.
const RECONNECT: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
};

/// What is known of a connection that is made again for ever.
#[derive(Debug, Default)]
pub struct Losses {
    /// In a row.
    failures: u32,
    last_reason: String,
}

impl Losses {
    /// Logs the loss of the connection, or an attempt that failed in another way than the last one. Returns the pause
    /// before the next attempt.
    pub fn note(&mut self, error: &lapin::Error, was_up: bool) -> Duration {
        let reason = error.to_string();
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

/// Connects once; whoever needs the broker tries again for ever. The broker's administrators see `name`.
///
/// # Errors
/// When the broker is out of reach, silent, or refuses the log-in.
pub async fn connect(uri: &AMQPUri, name: &str) -> lapin::Result<Connection> {
    let mut uri = uri.clone();
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    // Recovery is written where it is needed: the library's own replays a topology that may be gone on purpose.
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    within(ANSWER, Connection::connect_uri(uri, properties)).await
}

/// How often a connection is looked at by those who wait for it.
const LOOK: Duration = Duration::from_secs(1);

/// Completes when a connection turns out to be gone. A wait for the broker needs it beside it: a consumer that is
/// registered while its connection breaks is never told, and neither is who sends nothing.
pub async fn lost(connection: &Connection) -> lapin::Error {
    while connection.status().connected() {
        sleep(LOOK).await;
    }
    io::Error::other("the connection was lost").into()
}

/// Gives up on an answer that does not come.
///
/// # Errors
/// The operation's own, or an input/output error of the kind `TimedOut`.
pub async fn within<T>(
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
        let mut losses = Losses::default();
        for failure in 1..100 {
            let pause = losses.note(&error, false);
            assert!(pause >= RECONNECT.pause(failure, 0.0) && pause <= RECONNECT.longest);
        }
        assert!(losses.note(&error, true) <= RECONNECT.first);
    }
}
