//! The exchange and the queues that must exist before a job is published or consumed. Declaring them is idempotent.
//!
//! Delivery limit, dead lettering and maximum length are not declared here. They belong to a policy that the
//! operator sets, because the arguments of a queue can never change.

use lapin::{
    Channel, Connection, ErrorKind, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{OPERATION_TIMEOUT, with_timeout};

/// The queue of the jobs; the default exchange routes to it by its name.
pub const JOBS: &str = "jobs";
/// The exchange to which the policy routes dead letters.
pub const DEAD_LETTER_EXCHANGE: &str = "jobs.dlx";
pub const DEAD_LETTERS: &str = "jobs.dlq";
/// The queue of the one connection that works on dead letters. It has the name of the exchange, for which the user of every
/// broker has the rights.
const TURN: &str = DEAD_LETTER_EXCHANGE;
/// The reply code with which a broker refuses the queue of another connection.
const RESOURCE_LOCKED: u16 = 405;

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

/// Takes the turn of working on dead letters for the connection of this channel, until the connection ends. Returns false if
/// another one has it.
///
/// # Errors
/// Fails if the broker does not answer.
pub async fn take_turn(channel: &Channel) -> lapin::Result<bool> {
    let exclusive = QueueDeclareOptions {
        exclusive: true,
        ..QueueDeclareOptions::default()
    };
    // The default type of a virtual host may be one that no queue of a connection can have.
    let declared = channel.queue_declare(TURN.into(), exclusive, of_type("classic"));
    match with_timeout(OPERATION_TIMEOUT, declared).await {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::ProtocolError(refusal) if refusal.get_id() == RESOURCE_LOCKED => Ok(false),
            _ => Err(error),
        },
    }
}

/// Declares a quorum queue: a confirmed message survives a restart of the broker, and deliveries are counted.
async fn quorum_queue(channel: &Channel, name: &str) -> lapin::Result<()> {
    let durable = QueueDeclareOptions::durable();
    let declared = channel.queue_declare(name.into(), durable, of_type("quorum"));
    declared.await.map(drop)
}

/// Returns the arguments of a queue of this type.
fn of_type(kind: &str) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
    arguments
}
