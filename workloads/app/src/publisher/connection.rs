//! The task that maintains the connection to the broker.

use std::time::Duration;

use futures::future::try_join_all;
use lapin::{Connection, protocol::constants::REPLY_SUCCESS};
use shortener_common::{
    backends::Health,
    queue::{Broker, ReconnectBackoff, connect, fault, lost, topology, with_timeout},
};
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::sleep,
};

use super::{CHANNELS, Pending, State, channel::PublishChannel, metrics::PublisherMetrics};

/// The interval at which the topology is declared again.
const REDECLARE: Duration = Duration::from_secs(30);

/// The longest wait for the broker to confirm the end of a connection.
const CLOSE: Duration = Duration::from_millis(100);

/// Keeps [`State`] up to date.
pub(super) struct ConnectionTask {
    pub(super) broker: Broker,
    /// The jobs that wait to be sent.
    pub(super) jobs: Mutex<mpsc::Receiver<Pending>>,
    pub(super) publish: watch::Sender<State>,
    pub(super) metrics: PublisherMetrics,
    pub(super) health: Health,
}

impl ConnectionTask {
    pub(super) async fn run(mut self) {
        let mut backoff = ReconnectBackoff::default();
        while !self.publish.is_closed() {
            let ended = self.live().await;
            let was_up = self.publish.send_replace(None).is_some();
            self.metrics.up.set(0);
            // Waiting jobs fail at once; none is kept for a later connection.
            while self.jobs.get_mut().try_recv().is_ok() {}
            let Err(error) = ended else { continue };
            self.health.failed(fault(&error));
            tokio::select! {
                () = sleep(backoff.failed(&error, was_up)) => {}
                () = self.publish.closed() => {}
            }
        }
    }

    /// Runs one connection until it fails.
    async fn live(&self) -> lapin::Result<()> {
        let connection = connect(&self.broker, "shortener-app").await?;
        topology::declare(&connection).await?;
        let channels = (0..CHANNELS).map(|_| PublishChannel::open(&connection));
        let channels = try_join_all(channels).await?;
        self.metrics.up.set(1);
        self.health.up();
        self.publish.send_replace(Some(connection.status().clone()));
        tracing::info!(event = "queue_up", "queue_up");
        let ended = tokio::select! {
            ended = try_join_all(channels.iter().map(|channel| channel.run(&self.jobs))) => ended.map(drop),
            error = lost(&connection) => Err(error),
            failed = keep_topology(&connection) => failed,
        };
        // Before the channels are dropped. The library sends the end of a channel before the jobs that it has not sent
        // yet, and a broker that gets the rest of one on a closed channel logs UNEXPECTED_FRAME.
        let close = connection.close(REPLY_SUCCESS, "done".into());
        let _ = with_timeout(CLOSE, close).await;
        ended
    }
}

/// Declares the topology periodically, so that deleted parts of it come back. Completes if that fails.
async fn keep_topology(connection: &Connection) -> lapin::Result<()> {
    loop {
        sleep(REDECLARE).await;
        // A blocked broker does not read. A declaration would time out, and end the connection.
        if !connection.status().blocked() {
            topology::declare(connection).await?;
        }
    }
}
