//! A channel that publishes jobs without waiting for the confirmations of others.

use std::{future::poll_fn, io, pin::pin};

use futures::future::{BoxFuture, FutureExt};
use lapin::{
    Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use shortener_common::{
    queue::{OPERATION_TIMEOUT, job, topology, with_timeout},
    trace::TraceContext,
};
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep},
};

use super::{
    CONFIRM, Caller, NewJob, Pending, Refusal,
    window::{Answer, Window},
};

/// The jobs of a channel that are in flight, with those who wait for their results.
type InFlight<'a> = Window<Caller, BoxFuture<'a, lapin::Result<Answer>>>;

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
    pub(super) async fn run(&self, jobs: &mut mpsc::Receiver<Pending>) -> lapin::Result<()> {
        let mut window = Window::new();
        let mut overdue = pin!(sleep(CONFIRM));
        loop {
            tokio::select! {
                biased;
                decided = poll_fn(|context| window.poll_decided(context)) => {
                    overdue.as_mut().reset(Instant::now() + CONFIRM);
                    self.tell(decided.results).await?;
                    if let Some(error) = decided.failure {
                        return Err(error);
                    }
                }
                first = jobs.recv(), if window.has_room() => {
                    let Some(first) = first else { return Ok(()) };
                    if window.is_empty() {
                        overdue.as_mut().reset(Instant::now() + CONFIRM);
                    }
                    // The tasks that are ready may have jobs as well, and all of them are written together.
                    yield_now().await;
                    self.send(first, &mut window);
                    while window.has_room() && let Ok(next) = jobs.try_recv() {
                        self.send(next, &mut window);
                    }
                }
                // Nothing was confirmed for so long that the first caller has given up. A broker that has blocked the
                // connection confirms everything once it has memory and disk space again.
                () = &mut overdue, if !window.is_empty() => {
                    if !self.connection.status().blocked() {
                        return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                    }
                    overdue.as_mut().reset(Instant::now() + CONFIRM);
                }
            }
        }
    }

    /// Sends a job, unless its caller has given up.
    fn send<'s>(&'s self, pending: Pending, window: &mut InFlight<'s>) {
        let Pending {
            job,
            publication,
            caller,
        } = pending;
        if !caller.is_gone() {
            let confirmation = self.publish(job, publication).boxed();
            window.push(caller, publication.span_id, confirmation);
        }
    }

    /// Publishes a job at the first poll, and completes when it is confirmed.
    async fn publish(&self, job: NewJob, publication: TraceContext) -> lapin::Result<Answer> {
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let tracestate = job.tracestate.as_deref();
        let properties = job::properties(job.id, &job.origin, publication, tracestate);
        let jobs = topology::JOBS.into();
        let sent = self
            .channel
            .basic_publish("".into(), jobs, mandatory, &job.body, properties);
        answer_of(sent.await?.await?)
    }

    /// Tells results. The queue is declared again before callers hear that it did not exist.
    async fn tell(&self, results: Vec<(Caller, Result<(), Refusal>)>) -> lapin::Result<()> {
        let mut unroutable = Vec::new();
        for (caller, result) in results {
            match result {
                Err(Refusal::Unroutable) => unroutable.push(caller),
                result => caller.tell(result),
            }
        }
        if !unroutable.is_empty() {
            topology::declare(self.connection).await?;
        }
        for caller in unroutable {
            caller.tell(Err(Refusal::Unroutable));
        }
        Ok(())
    }
}

/// Reads a confirmation.
///
/// # Errors
/// Fails if it carries a message of someone else.
fn answer_of(confirmation: Confirmation) -> lapin::Result<Answer> {
    let is_accepted = confirmation.is_ack();
    let returned = match confirmation.take_message() {
        None => None,
        Some(message) => {
            let publication = job::publication_of(&message.properties);
            let unknown = || io::Error::other("the broker returned a message of someone else");
            Some(publication.ok_or_else(unknown)?.span_id)
        }
    };
    Ok(Answer {
        is_accepted,
        returned,
    })
}

#[cfg(test)]
mod tests {
    use lapin::message::{BasicReturnMessage, Delivery};
    use shortener_common::queue::origin::Origin;
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
    fn a_returned_message_names_its_publication() {
        let (id, trace) = (Uuid::now_v7(), TraceContext::root());
        // The same job twice.
        let publications = [trace.child(), trace.child()];
        for publication in publications {
            let message = returned(job::properties(id, &Origin::Internal, publication, None));
            let answer = answer_of(Confirmation::Ack(Some(message))).unwrap();
            let expected = Answer {
                is_accepted: true,
                returned: Some(publication.span_id),
            };
            assert_eq!(answer, expected);
        }
        assert_ne!(publications[0].span_id, publications[1].span_id);
    }

    #[test]
    fn only_an_acknowledgement_accepts_a_job() {
        for (confirmation, is_accepted) in [
            (Confirmation::Ack(None), true),
            (Confirmation::Nack(None), false),
            (Confirmation::NotRequested, false),
        ] {
            let answer = answer_of(confirmation).unwrap();
            assert_eq!((answer.is_accepted, answer.returned), (is_accepted, None));
        }
    }

    #[test]
    fn a_message_without_a_publication_ends_the_channel() {
        let message = returned(lapin::BasicProperties::default());
        assert!(answer_of(Confirmation::Ack(Some(message))).is_err());
    }
}
