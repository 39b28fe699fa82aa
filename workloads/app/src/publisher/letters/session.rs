//! A connection to the dead-letter queue for the time of one request.

use std::{collections::VecDeque, time::Duration};

use futures::future::try_join_all;
use lapin::{
    Channel,
    message::{BasicGetMessage, Delivery},
    options::{BasicAckOptions, BasicGetOptions, BasicNackOptions},
};
use shortener_common::queue::{
    Broker, BrokerConnection, OPERATION_TIMEOUT, connect,
    topology::{DEAD_LETTERS, take_turn},
    with_timeout,
};
use tokio::time::Instant;

use super::LettersError;

/// The delivery tag that stands for every message without an acknowledgement.
const EVERY: u64 = 0;
/// The number of dead letters for which the session asks at once, because each answer takes a round trip.
pub(super) const AHEAD: usize = 8;

/// A connection that receives dead letters. It is not that of the publisher: an error closes a channel, and dead letters
/// return to their queue when their channel closes.
pub(super) struct Session {
    connection: BrokerConnection,
    channel: Channel,
    /// The end of the time limit.
    end: Instant,
    /// The number of messages that have not been received; `None` before the first one. Messages that arrive in the
    /// meantime do not count: replayed jobs may come back.
    left: Option<u32>,
    /// Messages that have arrived before they are received.
    ahead: VecDeque<Delivery>,
}

impl Session {
    /// Connects, which is a part of the time limit.
    ///
    /// # Errors
    /// Fails if the broker does, or if another program works on the dead letters: nobody else sees those that it has received.
    pub(super) async fn open(broker: &Broker, limit: Duration) -> Result<Self, LettersError> {
        let end = Instant::now() + limit;
        let connection = connect(broker, "shortener-app-dead-letters").await?;
        let channel = with_timeout(OPERATION_TIMEOUT, connection.create_channel()).await?;
        if !take_turn(&channel).await? {
            return Err(LettersError::Busy);
        }
        Ok(Self {
            connection,
            channel,
            end,
            left: None,
            ahead: VecDeque::new(),
        })
    }

    /// Receives the next dead letter; `None` at the end of the queue, or of the time. The caller needs at most this number of
    /// them: those that return to the queue change places, and the next page skips as many as the caller has received.
    pub(super) async fn receive(&mut self, at_most: usize) -> lapin::Result<Option<Delivery>> {
        let Some(left) = self.left else {
            let first = self.get().await?;
            self.left = Some(first.as_ref().map_or(0, |message| message.message_count));
            return Ok(first.map(|message| message.delivery));
        };
        if left == 0 {
            return Ok(None);
        }
        if self.ahead.is_empty() {
            if Instant::now() >= self.end {
                return Ok(None);
            }
            let count = at_most.min(left as usize).min(AHEAD);
            let gets = (0..count).map(|_| self.get());
            let messages = try_join_all(gets).await?.into_iter().flatten();
            self.ahead = messages.map(|message| message.delivery).collect();
        }
        let letter = self.ahead.pop_front();
        self.left = Some(letter.as_ref().map_or(0, |_| left - 1));
        Ok(letter)
    }

    async fn get(&self) -> lapin::Result<Option<BasicGetMessage>> {
        let options = BasicGetOptions::default();
        let message = self.channel.basic_get(DEAD_LETTERS.into(), options);
        with_timeout(OPERATION_TIMEOUT, message).await
    }

    /// Returns the number of messages that have not been received.
    pub(super) fn left(&self) -> usize {
        self.left.unwrap_or_default() as usize
    }

    /// Returns true if every message was received that was in the queue at the beginning.
    pub(super) fn is_at_the_end(&self) -> bool {
        self.left == Some(0)
    }

    /// Removes a message from the queue.
    pub(super) async fn acknowledge(&self, tag: u64) -> lapin::Result<()> {
        let acknowledgement = self.channel.basic_ack(tag, BasicAckOptions::default());
        with_timeout(OPERATION_TIMEOUT, acknowledgement).await
    }

    /// Returns the other messages to the queue, and closes the connection. From RabbitMQ 4.3 on, this counts as no
    /// delivery.
    pub(super) async fn close(self) -> lapin::Result<()> {
        let every = BasicNackOptions {
            multiple: true,
            requeue: true,
        };
        let returned = self.channel.basic_nack(EVERY, every);
        with_timeout(OPERATION_TIMEOUT, returned).await?;
        let closed = self.connection.close(200, "done".into());
        with_timeout(OPERATION_TIMEOUT, closed).await
    }
}
