//! Taking jobs from the broker, one at a time, for ever; the only part that knows the broker.

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
    Channel, Connection,
    message::Delivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
        BasicQosOptions, BasicRejectOptions,
    },
    types::FieldTable,
    uri::AMQPUri,
};
use shortener_common::queue::{
    ANSWER, Losses, connect, lost,
    topology::{self, JOBS},
    within,
};
use tokio::time::{sleep, timeout};

use crate::{
    processor::{Processor, Verdict},
    stop::{Stop, asked},
};

/// Deliveries that the broker hands out before one of them is acknowledged.
const PREFETCH: u16 = 1;

/// Takes jobs and has them processed.
pub struct Consumer {
    /// Where the broker is.
    pub uri: AMQPUri,
    /// How the broker's administrators know this worker.
    pub name: String,
    /// Deals with the deliveries.
    pub processor: Arc<Processor>,
    /// Whether jobs are being taken.
    pub consuming: Arc<AtomicBool>,
    /// How long the job in progress may go on after the end was asked for.
    pub drain_timeout: Duration,
}

/// Why a subscription ended in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The process ends; the job in progress was finished.
    Finished,
    /// The process ends; the job in progress goes back to the queue.
    Unfinished,
    /// Something that jobs need is away.
    Waiting,
}

/// A subscription to the queue.
struct Subscription {
    connection: Connection,
    channel: Channel,
    deliveries: lapin::Consumer,
}

impl Consumer {
    /// Takes jobs until the end is asked for. Returns whether the job in progress was finished.
    pub async fn run(self, mut stop: Stop) -> bool {
        let mut losses = Losses::default();
        let mut gave_back = false;
        loop {
            tokio::select! {
                () = self.can_work(gave_back) => {}
                () = asked(&mut stop) => return true,
            }
            let ended = self.session(&mut stop).await;
            let was_up = self.consuming.swap(false, Ordering::AcqRel);
            self.processor.metrics.queue_up.set(0);
            let error = match ended {
                Ok(Left::Finished) => return true,
                Ok(Left::Unfinished) => return false,
                Ok(Left::Waiting) => {
                    gave_back = true;
                    continue;
                }
                Err(error) => error,
            };
            gave_back = false;
            tokio::select! {
                () = sleep(losses.note(&error, was_up)) => {}
                () = asked(&mut stop) => return true,
            }
        }
    }

    /// Waits until there is a point in taking jobs. Without the ledger none could be done. What else a job needs is known
    /// once it is there; but after one was given back for the want of something, taking it again before all is there
    /// would spend its deliveries.
    async fn can_work(&self, gave_back: bool) {
        let context = &self.processor.context;
        match gave_back {
            true => context.up().await,
            false => context.database.up().await,
        }
    }

    /// One life of the connection, from its start to its loss or the end of the process.
    async fn session(&self, stop: &mut Stop) -> lapin::Result<Left> {
        let mut subscription = tokio::select! {
            subscription = self.subscribe() => subscription?,
            () = asked(stop) => return Ok(Left::Finished),
        };
        self.consuming.store(true, Ordering::Release);
        self.processor.metrics.queue_up.set(1);
        tracing::info!(event = "queue_up", "queue_up");
        loop {
            let delivery = tokio::select! {
                biased;
                () = asked(stop) => {
                    subscription.leave().await;
                    return Ok(Left::Finished);
                }
                delivery = subscription.deliveries.next() => delivery,
                error = lost(&subscription.connection) => return Err(error),
            };
            let gone = || io::Error::other("the subscription was cancelled by the broker");
            let delivery = delivery.ok_or_else(gone)??;
            if let Some(left) = self.deal(&subscription, delivery, stop).await? {
                subscription.leave().await;
                return Ok(left);
            }
        }
    }

    async fn subscribe(&self) -> lapin::Result<Subscription> {
        let connection = connect(&self.uri, &self.name).await?;
        topology::declare(&connection).await?;
        within(ANSWER, async {
            let channel = connection.create_channel().await?;
            // Busy workers get nothing that an idle one could do.
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

    /// One delivery. Says why to leave, if that is what comes next.
    async fn deal(
        &self,
        subscription: &Subscription,
        mut delivery: Delivery,
        stop: &mut Stop,
    ) -> lapin::Result<Option<Left>> {
        let body = std::mem::take(&mut delivery.data);
        let work = self
            .processor
            .process(&delivery.properties, body, stop.clone());
        let mut work = pin!(work);
        let verdict = tokio::select! {
            // First, so that the subscription ends before the acknowledgement that would bring the next job.
            biased;
            () = asked(stop) => {
                tracing::info!(event = "draining", "draining");
                subscription.cancel().await;
                timeout(self.drain_timeout, work).await.ok()
            }
            verdict = &mut work => Some(verdict),
        };
        match verdict {
            Some(Verdict::Ack) => {
                within(ANSWER, delivery.ack(BasicAckOptions::default())).await?;
            }
            Some(Verdict::Retry(pause)) => {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = asked(stop) => subscription.cancel().await,
                }
                // Counts towards the delivery limit on every version of the broker; a nack does not from 4.3 on.
                let requeue = BasicRejectOptions { requeue: true };
                within(ANSWER, delivery.reject(requeue)).await?;
            }
            Some(Verdict::DeadLetter) => {
                let for_good = BasicRejectOptions { requeue: false };
                within(ANSWER, delivery.reject(for_good)).await?;
            }
            Some(Verdict::GiveBack) => {
                // No attempt was made, and from version 4.3 on none is counted.
                let requeue = BasicNackOptions {
                    requeue: true,
                    ..BasicNackOptions::default()
                };
                within(ANSWER, delivery.nack(requeue)).await?;
                let left = if *stop.borrow() {
                    Left::Unfinished
                } else {
                    Left::Waiting
                };
                return Ok(Some(left));
            }
            // The broker delivers it again when this connection closes.
            None => return Ok(Some(Left::Unfinished)),
        }
        Ok(stop.borrow().then_some(Left::Finished))
    }
}

impl Subscription {
    /// Asks for no further delivery. It is no loss when that fails, because what comes goes back.
    async fn cancel(&self) {
        let cancel = self
            .channel
            .basic_cancel(self.deliveries.tag(), BasicCancelOptions::default());
        let _ = within(ANSWER, cancel).await;
    }

    /// Closes the connection after everything that was said on it. What was not acknowledged goes back to the queue.
    async fn leave(self) {
        let _ = within(ANSWER, self.connection.close(200, "goodbye".into())).await;
    }
}
