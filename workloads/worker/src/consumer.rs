//! The consumer: receives jobs from the broker, one at a time, and reconnects without a limit on attempts. It is
//! the only part that talks to the broker.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use lapin::{
    Channel,
    message::Delivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
        BasicQosOptions, BasicRejectOptions,
    },
    types::FieldTable,
};
use shortener_common::{
    backends::Health,
    queue::{
        Broker, BrokerConnection, OPERATION_TIMEOUT, ReconnectBackoff, connect, fault, lost,
        topology::{self, JOBS},
        with_timeout,
    },
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{outcome::JobOutcome, processor::Processor};

/// The maximum number of unacknowledged deliveries.
const PREFETCH: u16 = 1;

/// The consumer of the queue.
pub struct Consumer {
    /// Address of the broker, credentials and certificates.
    pub broker: Broker,
    /// Name of the connection in the broker's management UI.
    pub name: String,
    pub processor: Arc<Processor>,
    /// True while the consumer is subscribed to the queue.
    pub consuming: Arc<AtomicBool>,
    /// The state of the broker, for the operator.
    pub health: Health,
    /// Time limit for the job in progress once the process ends.
    pub drain_timeout: Duration,
}

/// The reason why a subscription ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionEnd {
    /// The process ends; the job in progress was finished.
    Finished,
    /// The process ends; the job in progress returns to the queue.
    Unfinished,
    /// A backend that jobs need is down.
    Waiting,
}

/// A subscription to the queue.
struct Subscription {
    connection: BrokerConnection,
    channel: Channel,
    deliveries: lapin::Consumer,
}

impl Consumer {
    /// Consumes jobs until the process ends. Returns true if the job in progress was finished.
    pub async fn run(self, stop: CancellationToken) -> bool {
        let mut backoff = ReconnectBackoff::default();
        let mut gave_back = false;
        loop {
            tokio::select! {
                () = self.can_work(gave_back) => {}
                () = stop.cancelled() => return true,
            }
            let ended = self.session(&stop).await;
            let was_up = self.consuming.swap(false, Ordering::AcqRel);
            self.processor.metrics.queue_up.set(0);
            let error = match ended {
                Ok(SessionEnd::Finished) => return true,
                Ok(SessionEnd::Unfinished) => return false,
                Ok(SessionEnd::Waiting) => {
                    gave_back = true;
                    continue;
                }
                Err(error) => error,
            };
            gave_back = false;
            self.health.failed(fault(&error));
            tokio::select! {
                () = sleep(backoff.failed(&error, was_up)) => {}
                () = stop.cancelled() => return true,
            }
        }
    }

    /// Waits until jobs can be processed. Every job needs the database. Only some jobs need other backends, so this
    /// does not wait for them at first. After a job was returned because a backend was down, it waits for all of
    /// them: receiving that job again too early would use up its deliveries.
    async fn can_work(&self, gave_back: bool) {
        let context = &self.processor.context;
        match gave_back {
            true => context.up().await,
            false => context.database.up().await,
        }
    }

    /// Runs one connection until it is lost or the process ends.
    async fn session(&self, stop: &CancellationToken) -> lapin::Result<SessionEnd> {
        let mut subscription = tokio::select! {
            subscription = self.subscribe() => subscription?,
            () = stop.cancelled() => return Ok(SessionEnd::Finished),
        };
        self.health.up();
        self.consuming.store(true, Ordering::Release);
        self.processor.metrics.queue_up.set(1);
        tracing::info!(event = "queue_up", "queue_up");
        loop {
            let delivery = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    subscription.leave().await;
                    return Ok(SessionEnd::Finished);
                }
                delivery = subscription.deliveries.next() => delivery,
                error = lost(&subscription.connection) => return Err(error),
            };
            let gone = || io::Error::other("the broker cancelled the subscription");
            let delivery = delivery.ok_or_else(gone)??;
            if let Some(end) = self.handle_delivery(&subscription, delivery, stop).await? {
                subscription.leave().await;
                return Ok(end);
            }
        }
    }

    async fn subscribe(&self) -> lapin::Result<Subscription> {
        let connection = connect(&self.broker, &self.name).await?;
        topology::declare(&connection).await?;
        with_timeout(OPERATION_TIMEOUT, async {
            let channel = connection.create_channel().await?;
            // A busy worker must not hold jobs that an idle one could process.
            channel
                .basic_qos(PREFETCH, BasicQosOptions::default())
                .await?;
            let consume = channel.basic_consume(
                JOBS.into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            );
            let deliveries = consume.await?;
            Ok(Subscription {
                connection,
                channel,
                deliveries,
            })
        })
        .await
    }

    /// Handles one delivery. Returns a reason if the subscription has to end.
    async fn handle_delivery(
        &self,
        subscription: &Subscription,
        mut delivery: Delivery,
        stop: &CancellationToken,
    ) -> lapin::Result<Option<SessionEnd>> {
        let body = std::mem::take(&mut delivery.data);
        let work = self.processor.process(&delivery.properties, body, stop);
        let mut work = pin!(work);
        let outcome = tokio::select! {
            // First, so that the subscription is cancelled before the acknowledgement, which would bring the next
            // job.
            biased;
            () = stop.cancelled() => {
                tracing::info!(event = "draining", "draining");
                subscription.cancel().await;
                timeout(self.drain_timeout, work).await.ok()
            }
            outcome = &mut work => Some(outcome),
        };
        match outcome {
            Some(outcome) => subscription.settle(&delivery, &outcome, stop).await,
            // The broker redelivers the job once this connection closes.
            None => Ok(Some(SessionEnd::Unfinished)),
        }
    }
}

impl Subscription {
    /// Settles a delivery. Returns a reason if the subscription has to end.
    async fn settle(
        &self,
        delivery: &Delivery,
        outcome: &JobOutcome,
        stop: &CancellationToken,
    ) -> lapin::Result<Option<SessionEnd>> {
        match outcome {
            JobOutcome::Rejected {
                is_dead_letter: false,
                ..
            }
            | JobOutcome::Done
            | JobOutcome::Duplicate => {
                with_timeout(OPERATION_TIMEOUT, delivery.ack(BasicAckOptions::default())).await?;
            }
            JobOutcome::Failed { pause, .. } => {
                tokio::select! {
                    () = sleep(*pause) => {}
                    () = stop.cancelled() => self.cancel().await,
                }
                // A reject counts towards the delivery limit on every version of the broker; a nack does not from
                // 4.3 on.
                let requeue = BasicRejectOptions { requeue: true };
                with_timeout(OPERATION_TIMEOUT, delivery.reject(requeue)).await?;
            }
            JobOutcome::Rejected { .. } | JobOutcome::Invalid(_) => {
                let for_good = BasicRejectOptions { requeue: false };
                with_timeout(OPERATION_TIMEOUT, delivery.reject(for_good)).await?;
            }
            JobOutcome::GivenBack => {
                // No attempt was made, and from version 4.3 on none is counted.
                let requeue = BasicNackOptions {
                    requeue: true,
                    ..BasicNackOptions::default()
                };
                with_timeout(OPERATION_TIMEOUT, delivery.nack(requeue)).await?;
                let end = if stop.is_cancelled() {
                    SessionEnd::Unfinished
                } else {
                    SessionEnd::Waiting
                };
                return Ok(Some(end));
            }
        }
        Ok(stop.is_cancelled().then_some(SessionEnd::Finished))
    }

    /// Cancels the subscription. A failure is harmless, because further deliveries return to the queue.
    async fn cancel(&self) {
        let cancel = self
            .channel
            .basic_cancel(self.deliveries.tag(), BasicCancelOptions::default());
        let _ = with_timeout(OPERATION_TIMEOUT, cancel).await;
    }

    /// Closes the connection after everything that was sent on it. Unacknowledged messages return to the queue.
    async fn leave(self) {
        let _ = with_timeout(
            OPERATION_TIMEOUT,
            self.connection.close(200, "goodbye".into()),
        )
        .await;
    }
}
