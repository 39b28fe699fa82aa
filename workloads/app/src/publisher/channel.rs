//! A channel that publishes jobs batch by batch.
//!
//! The library attaches a returned message to whichever confirmation of its channel arrives next, so the confirmation of one
//! job may carry the message of another one. A message is returned before it is confirmed, though: once all jobs of a batch
//! are confirmed, their confirmations carry every message of the batch that was returned, and no other one.

use std::{collections::HashSet, io, pin::pin};

use futures::future::try_join_all;
use lapin::{
    Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use shortener_common::{
    queue::{OPERATION_TIMEOUT, job, topology, with_timeout},
    trace::SpanId,
};
use tokio::{
    sync::{Mutex, mpsc},
    time::timeout,
};

use super::{CONFIRM, Pending, Refusal};

/// The maximum number of jobs in a batch.
const BATCH: usize = 128;

/// A channel of a connection.
pub(super) struct PublishChannel<'a> {
    connection: &'a Connection,
    channel: Channel,
}

impl<'a> PublishChannel<'a> {
    pub(super) async fn open(connection: &'a Connection) -> lapin::Result<Self> {
        let channel = with_timeout(OPERATION_TIMEOUT, async {
            let channel = connection.create_channel().await?;
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            Ok(channel)
        })
        .await?;
        Ok(Self {
            connection,
            channel,
        })
    }

    /// Publishes jobs until the channel fails or all senders are dropped. Callers without a result then know that the
    /// connection is lost.
    pub(super) async fn run(&self, jobs: &Mutex<mpsc::Receiver<Pending>>) -> lapin::Result<()> {
        let mut batch = Vec::new();
        // The other free channels wait for the lock meanwhile.
        while jobs.lock().await.recv_many(&mut batch, BATCH).await > 0 {
            // No client has got a response that accepts the job of a caller that has given up.
            batch.retain(|pending: &Pending| !pending.result.is_closed());
            let confirmations = self.publish(&batch).await?;
            let publications = batch.iter().map(|pending| pending.publication.span_id);
            let results = results(publications, &confirmations)?;
            // The queue is declared again before callers hear that it did not exist.
            if results.contains(&Err(Refusal::Unroutable)) {
                topology::declare(self.connection).await?;
            }
            for (pending, result) in batch.drain(..).zip(results) {
                let _ = pending.result.send(result);
            }
        }
        Ok(())
    }

    /// Publishes jobs, and waits until all of them are confirmed.
    async fn publish(&self, batch: &[Pending]) -> lapin::Result<Vec<Confirmation>> {
        let mut confirmed = pin!(try_join_all(
            batch.iter().map(|pending| self.confirmed(pending))
        ));
        loop {
            match timeout(CONFIRM, &mut confirmed).await {
                Ok(confirmations) => return confirmations,
                // A broker that has blocked the connection confirms everything once it has memory and disk space again.
                Err(_) if self.connection.status().blocked() => {}
                Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        }
    }

    async fn confirmed(&self, pending: &Pending) -> lapin::Result<Confirmation> {
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let (job, jobs) = (&pending.job, topology::JOBS.into());
        let tracestate = job.tracestate.as_deref();
        let properties = job::properties(
            job.id,
            &job.origin,
            &job.decision,
            pending.publication,
            tracestate,
        );
        let sent = self
            .channel
            .basic_publish("".into(), jobs, mandatory, &job.body, properties);
        sent.await?.await
    }
}

/// Returns the results of the jobs of a batch. The span of a publication is that of no other one: a job may be published twice
/// at the same time.
///
/// # Errors
/// Fails if the broker returned a message of someone else.
fn results(
    publications: impl Iterator<Item = SpanId>,
    confirmations: &[Confirmation],
) -> lapin::Result<Vec<Result<(), Refusal>>> {
    let mut returned = HashSet::new();
    for confirmation in confirmations {
        if let Confirmation::Ack(Some(message)) | Confirmation::Nack(Some(message)) = confirmation {
            let publication = job::publication_of(&message.properties);
            let unknown = || io::Error::other("the broker returned a message of someone else");
            returned.insert(publication.ok_or_else(unknown)?.span_id);
        }
    }
    let result = |(publication, confirmation): (SpanId, &Confirmation)| match confirmation {
        _ if returned.contains(&publication) => Err(Refusal::Unroutable),
        Confirmation::Ack(_) => Ok(()),
        Confirmation::Nack(_) | Confirmation::NotRequested => Err(Refusal::Rejected),
    };
    Ok(publications.zip(confirmations).map(result).collect())
}

#[cfg(test)]
mod tests {
    use lapin::message::{BasicReturnMessage, Delivery};
    use shortener_common::{
        queue::{decision::Decision, origin::Origin},
        trace::TraceContext,
    };
    use uuid::Uuid;

    use super::*;

    /// Returns a message as the broker returns it.
    fn returned(properties: lapin::BasicProperties) -> BasicReturnMessage {
        let mut delivery = Delivery::mock(0, "".into(), topology::JOBS.into(), false, Vec::new());
        delivery.properties = properties;
        BasicReturnMessage {
            delivery,
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
        }
    }

    #[test]
    fn each_job_has_its_own_result_whichever_confirmation_carries_its_message() {
        // The same job three times.
        let (id, trace) = (Uuid::now_v7(), TraceContext::root());
        let publications = [trace.child(), trace.child(), trace.child()];
        let message = || {
            let (origin, decision) = (Origin::Internal, Decision::default());
            let properties = job::properties(id, &origin, &decision, publications[1], None);
            Some(returned(properties))
        };
        for confirmations in [
            [
                Confirmation::Ack(message()),
                Confirmation::Ack(None),
                Confirmation::Nack(None),
            ],
            [
                Confirmation::Ack(None),
                Confirmation::Ack(None),
                Confirmation::Nack(message()),
            ],
        ] {
            let publications = publications.iter().map(|publication| publication.span_id);
            let expected = [Ok(()), Err(Refusal::Unroutable), Err(Refusal::Rejected)];
            assert_eq!(results(publications, &confirmations).unwrap(), expected);
        }
    }

    #[test]
    fn a_message_without_a_publication_ends_the_channel() {
        let message = returned(lapin::BasicProperties::default());
        let publications = [TraceContext::root().span_id].into_iter();
        assert!(results(publications, &[Confirmation::Ack(Some(message))]).is_err());
    }
}
