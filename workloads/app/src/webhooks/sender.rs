//! The tasks of a receiver: one sends what is due, and one announces the links that have expired. No receiver waits for
//! another one.

use std::{iter, path::PathBuf, sync::Arc, time::Duration};

use shortener_common::database::StoreError;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Receiver, Receivers,
    client::Client,
    message::Message,
    metrics::{DELIVERED, FAILED, GIVEN_UP, Metrics},
    schedule::{Outcome, Pace},
    secrets::{self, SecretFault, WebhookSecret},
};
use crate::store::webhooks::{Due, EXCESS_BATCH, EXPIRED_BATCH, MAX_DELIVERIES, Outbox};

/// The time between two looks at an outbox with nothing due, and before the next request to a receiver that is down.
const PERIOD: Duration = Duration::from_secs(1);
/// The time between two times at which the receivers are stored.
const KEEP_PERIOD: Duration = Duration::from_secs(30);
/// The time between two looks for links that have expired, and for deliveries that are too many.
const TEND_PERIOD: Duration = Duration::from_secs(60);

/// What all receivers share; cheap to clone.
#[derive(Clone, Debug)]
pub struct Sender {
    pub outbox: Outbox,
    pub client: Client,
    pub metrics: Arc<Metrics>,
    /// The folder with a folder of each receiver's secrets.
    pub secrets: PathBuf,
    /// The public URL without a slash at its end.
    pub public_base: Arc<str>,
}

impl Sender {
    /// Sends to a receiver until it is stopped, and then finishes the requests in progress.
    pub async fn send_to(self, receiver: Receiver, stop: CancellationToken) {
        let receiver = Arc::new(receiver);
        let mut requests = JoinSet::new();
        let (mut fault, mut pace) = (None, Pace::default());
        while !stop.is_cancelled() {
            let room = pace.room(requests.len());
            let due = match self.secrets(&receiver.name, &mut fault) {
                Some(secrets) if room > 0 => self.claim(&receiver.name, room, secrets).await,
                _ => Vec::new(),
            };
            let is_idle = due.len() < room;
            for (due, secrets) in due {
                let (sender, receiver) = (self.clone(), Arc::clone(&receiver));
                requests.spawn(async move { sender.attempt(&receiver, &due, &secrets).await });
            }
            let wait = async {
                // A request that ends is no reason to look again if nothing more is due.
                let ended = match is_idle {
                    true => None,
                    false => requests.join_next().await,
                };
                if is_idle || pace.is_down() {
                    sleep(PERIOD).await;
                }
                ended
            };
            let ended = tokio::select! {
                ended = wait => ended,
                () = stop.cancelled() => None,
            };
            let others = iter::from_fn(|| requests.try_join_next());
            for ended in ended.into_iter().chain(others) {
                pace.attempted(ended.unwrap_or(false));
            }
        }
        while requests.join_next().await.is_some() {}
    }

    /// Keeps the receivers in the database until it is stopped.
    pub async fn keep(self, receivers: Receivers, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = self.outbox.up() => {}
                () = stop.cancelled() => continue,
            }
            if let Err(error) = self.outbox.store_receivers(&receivers).await {
                tracing::warn!(event = "webhook_receivers_failed", error.message = %error, "webhook_receivers_failed");
            }
            let _ = timeout(KEEP_PERIOD, stop.cancelled()).await;
        }
    }

    /// Announces expired links to a receiver and bounds its outbox until it is stopped.
    pub async fn tend(self, receiver: Receiver, stop: CancellationToken) {
        let name = receiver.name;
        while !stop.is_cancelled() {
            tokio::select! {
                () = self.outbox.up() => {}
                () = stop.cancelled() => continue,
            }
            let announced = self.outbox.announce_expired(&name).await;
            let announced = logged(announced, "webhook_expiry_failed", &name);
            let dropped = self.outbox.drop_excess(&name, MAX_DELIVERIES).await;
            let dropped = logged(dropped, "webhook_drop_failed", &name);
            if let Some(dropped @ 1..) = dropped {
                self.metrics.dropped(&name, dropped);
                tracing::warn!(
                    event = "webhook_dropped",
                    webhook.receiver = name,
                    webhook.dropped = dropped,
                    "webhook_dropped"
                );
            }
            if announced != Some(EXPIRED_BATCH) && dropped != Some(EXCESS_BATCH) {
                let _ = timeout(TEND_PERIOD, stop.cancelled()).await;
            }
        }
    }

    /// Reads the secrets of a receiver. A change of their fault is logged once.
    fn secrets(
        &self,
        receiver: &str,
        known: &mut Option<SecretFault>,
    ) -> Option<Arc<Vec<WebhookSecret>>> {
        let found = secrets::read(&self.secrets, receiver);
        self.metrics.has_secret(receiver, found.is_ok());
        let fault = found.as_ref().err().copied();
        if *known != fault {
            *known = fault;
            match fault {
                Some(fault) => tracing::warn!(
                    event = "webhook_secret_invalid",
                    webhook.receiver = receiver,
                    error.message = %fault,
                    "webhook_secret_invalid"
                ),
                None => tracing::info!(
                    event = "webhook_secret_valid",
                    webhook.receiver = receiver,
                    "webhook_secret_valid"
                ),
            }
        }
        found.ok().map(Arc::new)
    }

    async fn claim(
        &self,
        receiver: &str,
        room: usize,
        secrets: Arc<Vec<WebhookSecret>>,
    ) -> Vec<(Due, Arc<Vec<WebhookSecret>>)> {
        match self.outbox.claim(receiver, room).await {
            Ok(due) => {
                let with_secrets = |due| (due, Arc::clone(&secrets));
                due.into_iter().map(with_secrets).collect()
            }
            // The watcher of the database logs an outage.
            Err(error) => {
                tracing::debug!(error.message = %error, "no claim");
                Vec::new()
            }
        }
    }

    /// Makes one attempt and records its outcome. Without the record it is made again after the lease. Returns true if the
    /// receiver has taken the message.
    async fn attempt(&self, receiver: &Receiver, due: &Due, secrets: &[WebhookSecret]) -> bool {
        let message = match Message::of(due, &self.public_base) {
            Ok(message) => message,
            Err(error) => {
                tracing::error!(event = "webhook_message_failed", error.message = %error, "webhook_message_failed");
                return false;
            }
        };
        let outcome = self.client.send(&receiver.url, message, secrets).await;
        let recorded = match &outcome {
            Outcome::Delivered => {
                self.metrics.count(&receiver.name, DELIVERED);
                self.outbox.delivered(due).await
            }
            Outcome::Failed(failure) => {
                let pause = failure.pause(due.attempts, rand::random());
                let counted = if pause.is_some() { FAILED } else { GIVEN_UP };
                self.metrics.count(&receiver.name, counted);
                tracing::warn!(
                    event = "webhook_failed",
                    webhook.receiver = receiver.name,
                    webhook.delivery = due.id,
                    webhook.attempts = due.attempts + 1,
                    http.response.status_code = failure.status,
                    error.r#type = failure.error,
                    given_up = pause.is_none(),
                    "webhook_failed"
                );
                self.outbox.failed(due, failure, pause).await
            }
        };
        if let Err(error) = recorded {
            tracing::warn!(
                event = "webhook_unrecorded",
                webhook.receiver = receiver.name,
                webhook.delivery = due.id,
                error.message = %error,
                "webhook_unrecorded"
            );
        }
        outcome == Outcome::Delivered
    }
}

/// Logs the error of an operation for a receiver.
fn logged<T>(result: Result<T, StoreError>, event: &'static str, receiver: &str) -> Option<T> {
    let error = result.as_ref().err();
    if let Some(error) = error {
        tracing::warn!(event, webhook.receiver = receiver, error.message = %error, "{event}");
    }
    result.ok()
}
