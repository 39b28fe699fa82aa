//! A connection to the dead-letter queue for the time of one request.

use std::time::Duration;

use lapin::{
    Channel, Connection,
    message::Delivery,
    options::{BasicAckOptions, BasicGetOptions, BasicNackOptions},
};
use shortener_common::queue::{
    Broker, OPERATION_TIMEOUT, connect, topology::DEAD_LETTERS, with_timeout,
};
use tokio::time::Instant;

/// The delivery tag that stands for every message without an acknowledgement.
const EVERY: u64 = 0;

/// A connection that receives dead letters. It is not that of the publisher: an error closes a channel, and dead letters
/// return to their queue when their channel closes.
pub(super) struct Session {
    connection: Connection,
    channel: Channel,
    /// The end of the time limit.
    end: Instant,
    /// The number of messages that have not been received; `None` before the first one. Messages that arrive in the
    /// meantime do not count: replayed jobs may come back.
    left: Option<u32>,
}

impl Session {
    /// Connects, which is a part of the time limit.
    pub(super) async fn open(broker: &Broker, limit: Duration) -> lapin::Result<Self> {
        let end = Instant::now() + limit;
        let connection = connect(broker, "shortener-app-dead-letters").await?;
        let channel = with_timeout(OPERATION_TIMEOUT, connection.create_channel()).await?;
        Ok(Self {
            connection,
            channel,
            end,
            left: None,
        })
    }

    /// Receives the next dead letter; `None` at the end of the queue, or of the time.
    pub(super) async fn receive(&mut self) -> lapin::Result<Option<Delivery>> {
        let is_late = self.left.is_some() && Instant::now() >= self.end;
        if is_late || self.is_at_the_end() {
            return Ok(None);
        }
        let options = BasicGetOptions::default();
        let message = self.channel.basic_get(DEAD_LETTERS.into(), options);
        let message = with_timeout(OPERATION_TIMEOUT, message).await?;
        let left = message.as_ref().map_or(0, |message| message.message_count);
        self.left = Some(match (&message, self.left) {
            (Some(_), Some(before)) => before - 1,
            _ => left,
        });
        Ok(message.map(|message| message.delivery))
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
