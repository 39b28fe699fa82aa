//! Startup and shutdown of `app webhooks`: stop taking deliveries, finish the requests in progress, end.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use shortener_common::{
    backends::Backends,
    database::{AdmissionMetrics, Database},
    internal::{self, Process},
    server::{Background, ServerSettings, listen},
};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Receivers,
    client::{Client, Trust},
    metrics::Metrics,
    sender::Sender,
};
use crate::{
    config::WebhooksArgs,
    store::webhooks::{Outbox, deliveries::ReceiverState},
};

/// The connections to the database, for statements that are short.
const DATABASE_CONNECTIONS: u32 = 4;
/// The read and write timeout of the internal port.
const INTERNAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two looks at the numbers of deliveries.
const COUNT_PERIOD: Duration = Duration::from_secs(30);

/// A sender that listens on its internal port but sends nothing yet.
pub struct Webhooks {
    internal: TcpListener,
    receivers: Receivers,
    sender: Sender,
    probed: Probed,
}

/// The state for probes and scrapes.
#[derive(Clone)]
struct Probed {
    metrics: Arc<Metrics>,
    database: Database,
    stop: CancellationToken,
}

impl Process for Probed {
    /// Receivers that are down and secrets that are missing are no reason: another pod would find them like this, too.
    fn unready(&self) -> Option<&'static str> {
        self.stop.is_cancelled().then_some("draining")
    }

    fn registry(&self) -> &Registry {
        &self.metrics.registry
    }

    fn backends(&self) -> Backends {
        Backends {
            database: self.database.health.state(),
            ..Backends::default()
        }
    }
}

impl Webhooks {
    /// Opens the socket and starts connecting to the database.
    ///
    /// # Errors
    /// Fails if the address is in use, or a setting is malformed. A database that is down is not an error.
    pub fn bind(config: WebhooksArgs, metrics: Metrics, trust: Trust) -> anyhow::Result<Self> {
        let options = config.database.connect_options()?;
        let client = Client::new(trust)?;
        let internal = listen(config.internal_listen)?;
        let metrics = Arc::new(metrics);
        let database = Database::connect(
            "shortener-webhooks",
            options,
            DATABASE_CONNECTIONS,
            metrics.database_up.clone(),
            &AdmissionMetrics::default(),
        );
        let public_base = config.public_url.as_str().trim_end_matches('/');
        let sender = Sender {
            outbox: Outbox::new(database.clone()),
            client,
            metrics: Arc::clone(&metrics),
            secrets: config.webhooks_secrets_directory,
            public_base: public_base.into(),
        };
        let probed = Probed {
            metrics,
            database,
            stop: CancellationToken::new(),
        };
        Ok(Self {
            internal,
            receivers: config.webhooks,
            sender,
            probed,
        })
    }

    /// Returns the address of the internal port.
    ///
    /// # Errors
    /// Fails if the operating system does not report it.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.internal.local_addr()?)
    }

    /// Sends until `stop` completes, and finishes the requests in progress.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            internal,
            receivers,
            sender,
            probed,
        } = self;
        let settings = ServerSettings::internal(INTERNAL_TIMEOUT, INTERNAL_TIMEOUT);
        // Probes and metrics are answered until the very end.
        let internal = Background::start(internal, internal::router(probed.clone()), settings);
        let counting = tokio::spawn(count(sender.clone(), receivers.clone()));
        let mut tasks = JoinSet::new();
        let stopped = || probed.stop.clone();
        tasks.spawn(sender.clone().keep(receivers.clone(), stopped()));
        let Receivers(receivers) = receivers;
        for receiver in receivers {
            tasks.spawn(sender.clone().tend(receiver.clone(), stopped()));
            tasks.spawn(sender.clone().send_to(receiver, stopped()));
        }
        stop.await;
        probed.stop.cancel();
        while tasks.join_next().await.is_some() {}
        counting.abort();
        internal.end().await;
        tracing::info!(event = "stopped", "stopped");
    }
}

/// Keeps the numbers of deliveries to these receivers in the metrics up to date. Without an answer they stay as they were.
/// The database may have others, which were removed from the stack just now.
async fn count(sender: Sender, Receivers(own): Receivers) {
    let is_own = |state: &&ReceiverState| own.iter().any(|receiver| receiver.name == state.name);
    loop {
        sender.outbox.up().await;
        match sender.outbox.receivers().await {
            Ok(receivers) => {
                let receivers = receivers.iter().filter(is_own);
                receivers.for_each(|receiver| sender.metrics.show(receiver));
            }
            Err(error) => {
                tracing::warn!(event = "webhook_count_failed", error.message = %error, "webhook_count_failed");
            }
        }
        sleep(COUNT_PERIOD).await;
    }
}
