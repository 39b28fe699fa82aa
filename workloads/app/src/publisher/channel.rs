//! A channel that publishes one batch after the other.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use futures::future::join_all;
use lapin::{
    Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use shortener_common::queue::{OPERATION_TIMEOUT, job, topology, with_timeout};
use tokio::{
    sync::{Mutex, mpsc},
    time::{sleep, timeout},
};

use super::{CONFIRM, Pending, Refusal};

/// The maximum number of jobs in a batch.
const BATCH: usize = 512;
/// The interval at which a blocked connection is checked.
const BLOCKED: Duration = Duration::from_millis(200);

/// The jobs that wait to be sent, shared by all channels.
pub(super) type Waiting = Arc<Mutex<mpsc::Receiver<Pending>>>;

/// A channel with at most one batch in flight.
pub(super) struct PublishChannel {
    connection: Arc<Connection>,
    channel: Channel,
    jobs: Waiting,
}

impl PublishChannel {
    pub(super) async fn open(connection: &Arc<Connection>, jobs: &Waiting) -> lapin::Result<Self> {
        let channel = with_timeout(OPERATION_TIMEOUT, async {
            let channel = connection.create_channel().await?;
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            Ok(channel)
        })
        .await?;
        Ok(Self {
            connection: Arc::clone(connection),
            channel,
            jobs: Arc::clone(jobs),
        })
    }

    /// Publishes batches until the channel fails or all senders are dropped.
    pub(super) async fn run(self) -> lapin::Result<()> {
        let mut batch = Vec::new();
        while self.jobs.lock().await.recv_many(&mut batch, BATCH).await > 0 {
            // The callers of these jobs have given up, and no client has got a response that accepts the job.
            batch.retain(|pending| !pending.result.is_closed());
            self.publish(std::mem::take(&mut batch)).await?;
        }
        Ok(())
    }

    async fn publish(&self, batch: Vec<Pending>) -> lapin::Result<()> {
        // In one task, because the library numbers concurrent publications before it orders them.
        let confirmations = join_all(batch.iter().map(|pending| self.send(pending)));
        let Ok(confirmations) = timeout(CONFIRM, confirmations).await else {
            return self.give_up(batch).await;
        };
        let returned: HashSet<String> = confirmations.iter().filter_map(returned_id).collect();
        if !returned.is_empty() {
            topology::declare(&self.connection).await?;
        }
        let mut broken = None;
        for (pending, confirmation) in batch.into_iter().zip(confirmations) {
            let result = match confirmation {
                // Usually no message was returned, and then the identifier is not formatted.
                Ok(_) if !returned.is_empty() && returned.contains(&pending.job.id.to_string()) => {
                    Err(Refusal::Unroutable)
                }
                Ok(Confirmation::Ack(_)) => Ok(()),
                Ok(Confirmation::Nack(_) | Confirmation::NotRequested) => Err(Refusal::Rejected),
                Err(error) => {
                    broken = Some(error);
                    Err(Refusal::NotConnected)
                }
            };
            // The receiver is gone if the client closed its connection.
            let _ = pending.result.send(result);
        }
        broken.map_or(Ok(()), Err)
    }

    async fn send(&self, pending: &Pending) -> lapin::Result<Confirmation> {
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let (new, trace) = (&pending.job, pending.publication);
        let properties = job::properties(new.id, &new.origin, trace, new.tracestate.as_deref());
        self.channel
            .basic_publish(
                "".into(),
                topology::JOBS.into(),
                mandatory,
                &new.body,
                properties,
            )
            .await?
            .await
    }

    /// Fails the batch. The channel is unusable after a missing confirmation. The connection is kept for as long as
    /// an alarm blocks it.
    async fn give_up(&self, batch: Vec<Pending>) -> lapin::Result<()> {
        for pending in batch {
            let _ = pending.result.send(Err(Refusal::Timeout));
        }
        let status = self.connection.status();
        while status.blocked() && status.connected() {
            sleep(BLOCKED).await;
        }
        Err(io::Error::from(io::ErrorKind::TimedOut).into())
    }
}

fn returned_id(confirmation: &lapin::Result<Confirmation>) -> Option<String> {
    let Ok(Confirmation::Ack(Some(message)) | Confirmation::Nack(Some(message))) = confirmation
    else {
        return None;
    };
    let id = message.delivery.properties.message_id().as_ref()?;
    Some(id.as_str().to_owned())
}
