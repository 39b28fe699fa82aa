//! Accepted jobs: `POST /jobs`, compared with a loop that only publishes with confirmation.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions},
    types::{AMQPValue, FieldTable},
};
use shortener_testing::servers;

use crate::{
    Settings, cpu,
    load::{self, Exchange, Script},
    rounds, server,
    table::{Row, Sample},
};

/// The yardstick.
pub const YARDSTICK: &str = "lapin, publish and confirm";
/// The app.
pub const POSTED: &str = "app, POST /jobs";
/// The aim of the app, relative to the yardstick.
pub const AIM: f64 = 0.7;

const QUEUE: &str = "jobs";
const BODY: &str = r#"{"task":"email","id":1}"#;

/// Measures both.
///
/// # Errors
/// Fails if a server does not start, or if a job is not accepted.
pub async fn measure(settings: &Settings) -> Result<Vec<Row>> {
    let [broker_url, ..] = servers::BROKER.addresses()?;
    let connection = Connection::connect(broker_url, ConnectionProperties::default());
    let connection = connection.await.context("cannot connect to the broker")?;
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(QUEUE.into(), durable, arguments)
        .await?;
    let broker_url = ("QUEUE_URL", broker_url.clone());
    let app = server::app(settings, &[broker_url]).await?;
    let script = accepted();
    eprintln!("warming up the publisher");
    server::wait_until_ok(async || load::run(app.address, 1, 1, Arc::clone(&script)).await).await?;
    load::run(
        app.address,
        settings.connections,
        settings.jobs / 10,
        Arc::clone(&script),
    )
    .await?;

    let mut rows = vec![Row::new(YARDSTICK), Row::new(POSTED)];
    let (rounds, time) = (settings.rounds, settings.time_of_jobs());
    rounds::take(rounds, time, &mut rows, async |place| {
        purge(&channel).await?;
        if place == 0 {
            // The app is a child of this process, and its CPU time must not be counted here. The other children
            // only wait for the end of the database and the broker.
            let ours = || Ok(cpu::spent(std::process::id())?.saturating_sub(app.cpu()?));
            return Sample::take(settings.jobs, ours, publish(&channel, settings)).await;
        }
        let script = Arc::clone(&script);
        let work = load::run(app.address, settings.connections, settings.jobs, script);
        Sample::take(settings.jobs, || app.cpu(), work).await
    })
    .await?;
    Ok(rows)
}

async fn purge(channel: &Channel) -> Result<()> {
    channel
        .queue_purge(QUEUE.into(), QueuePurgeOptions::default())
        .await?;
    Ok(())
}

/// Publishes persistent messages to the same kind of queue, with as many in flight as the app has requests.
async fn publish(channel: &Channel, settings: &Settings) -> Result<()> {
    stream::iter(0..settings.jobs)
        .map(|_| async {
            let properties = BasicProperties::default()
                .with_delivery_mode(2)
                .with_content_type("application/json".into());
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish(
                "".into(),
                QUEUE.into(),
                options,
                BODY.as_bytes(),
                properties,
            );
            let confirmation = sent.await?.await?;
            ensure!(
                confirmation.is_ack(),
                "the broker did not confirm a job: {confirmation:?}"
            );
            Ok(())
        })
        .buffer_unordered(settings.connections)
        .try_collect::<()>()
        .await
}

fn accepted() -> Arc<Script> {
    let request = format!(
        "POST /jobs HTTP/1.1\r\nHost: bench.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    Arc::new(move |_| Exchange {
        request: request.clone().into_bytes(),
        status: "HTTP/1.1 202 ",
        line: String::new(),
    })
}
