//! The exchange and the queues that must exist before a job is published or consumed. Declaring them is idempotent.
//!
//! Delivery limit, dead lettering and maximum length are not declared here. They belong to a policy that the
//! operator sets, because the arguments of a queue can never change.

use lapin::{
    Channel, Connection, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{OPERATION_TIMEOUT, with_timeout};

/// The queue of the jobs; the default exchange routes to it by its name.
pub const JOBS: &str = "jobs";
/// The exchange to which the policy routes dead letters.
pub const DEAD_LETTER_EXCHANGE: &str = "jobs.dlx";
pub const DEAD_LETTERS: &str = "jobs.dlq";

/// Declares the topology over a channel of its own.
///
/// # Errors
/// Fails if the broker does not answer, or has a queue or exchange of the same name with other properties.
pub async fn declare(connection: &Connection) -> lapin::Result<()> {
    with_timeout(OPERATION_TIMEOUT, async {
        let channel = connection.create_channel().await?;
        // The dead-letter queue first, so that dead letters can be routed from the first job on.
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let exchange = || DEAD_LETTER_EXCHANGE.into();
        channel
            .exchange_declare(
                exchange(),
                ExchangeKind::Fanout,
                durable,
                FieldTable::default(),
            )
            .await?;
        quorum_queue(&channel, DEAD_LETTERS).await?;
        channel
            .queue_bind(
                DEAD_LETTERS.into(),
                exchange(),
                "".into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await?;
        quorum_queue(&channel, JOBS).await?;
        channel.close(200, "declared".into()).await
    })
    .await
}

/// Declares a quorum queue: a confirmed message survives a restart of the broker, and deliveries are counted.
async fn quorum_queue(channel: &Channel, name: &str) -> lapin::Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    channel
        .queue_declare(name.into(), QueueDeclareOptions::durable(), arguments)
        .await
        .map(drop)
}
