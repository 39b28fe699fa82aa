//! What must exist at the broker before a job is published or taken. Declaring it again changes nothing.
//!
//! Limits are not here: delivery limit, dead lettering and maximum length are a policy of the operator, because the
//! arguments of a queue can never change.

use lapin::{
    Channel, Connection, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{ANSWER, within};

/// The queue of the jobs; the default exchange routes to it by its name.
pub const JOBS: &str = "jobs";
/// Where the policy sends dead letters.
pub const DEAD_LETTER_EXCHANGE: &str = "jobs.dlx";
/// The queue of the dead letters.
pub const DEAD_LETTERS: &str = "jobs.dlq";

/// Declares whatever is missing, over a channel of its own.
///
/// # Errors
/// When the broker does not answer, or has a queue or exchange of these names with other properties.
pub async fn declare(connection: &Connection) -> lapin::Result<()> {
    within(ANSWER, async {
        let channel = connection.create_channel().await?;
        // Dead letters first, so that they have a place from the first job on.
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

/// Durable and replicated: a confirmed message survives the broker's restart, and deliveries are counted.
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
