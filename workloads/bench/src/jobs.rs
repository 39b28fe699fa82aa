//! Accepted jobs: `POST /jobs`, compared with the sum of its two halves: nginx that accepts every job and does nothing
//! with it, and a loop that only publishes with confirmation.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions},
    types::{AMQPValue, FieldTable},
};
use shortener_testing::servers;

use crate::{
    app::Environment,
    contender::Contender,
    cpu,
    footprint::{Footprint, Meter},
    load, losses, nginx,
    requests::{JOB, jobs},
    rounds,
    sample::{Row, Sample},
    server,
    settings::Settings,
};

/// The yardstick: both halves added up, one after the other.
const SUM: &str = "nginx, then the publisher (added up)";
const ANSWER: &str = "nginx, return 202";
const PUBLISHER: &str = "publisher: publish and confirm";
const POSTED: &str = "app, POST /jobs";
/// The rows of the table.
pub const ROWS: [&str; 4] = [ANSWER, PUBLISHER, SUM, POSTED];
/// The aim of the app, relative to the yardstick.
pub const AIM: (&str, f64) = (POSTED, 0.30);

const QUEUE: &str = "jobs";
/// The key that marks identifiers of jobs, as long as the operator's.
const JOB_ID_KEY: &str = "3f1c0a9d5b7e42868c1d2e3f40516273";

/// The contenders, and the publisher in this process.
pub struct Jobs {
    nginx: Contender,
    app: Contender,
    channel: Channel,
    /// The channel ends with it.
    _connection: Connection,
}

impl Jobs {
    /// Starts everything, and warms up the app's publisher.
    ///
    /// # Errors
    /// Fails if a server does not start, or if a job is not accepted.
    pub async fn start(settings: &Settings) -> Result<Self> {
        let [broker_url, ..] = servers::BROKER.addresses()?;
        let (connection, channel) = connect(broker_url).await?;
        let answers = "one worker per core, no log";
        let nginx = Contender {
            yardstick: SUM,
            ..Contender::other(ANSWER, answers, nginx::accepting().await?, jobs())
        };
        let environment = Environment::default()
            .store("QUEUE_URL", broker_url)
            .store("JOB_ID_KEY", JOB_ID_KEY);
        let server = environment.start(&settings.app).await?;
        let app = Contender {
            yardstick: SUM,
            ..Contender::app(POSTED, environment, server, jobs())
        };
        eprintln!("warming up the publisher");
        let (address, script) = (app.address(), &app.script);
        server::wait_until_ok(async || load::run(address, 1, 1, script).await).await?;
        load::run(address, settings.connections, settings.jobs / 10, script).await?;
        Ok(Self {
            nginx,
            app,
            channel,
            _connection: connection,
        })
    }

    /// Measures all of them; also returns notes on the results.
    ///
    /// # Errors
    /// Fails if a job is not accepted.
    pub async fn measure(&self, settings: &Settings) -> Result<(Vec<Row>, Vec<String>)> {
        let publisher = Row {
            name: PUBLISHER,
            yardstick: SUM,
            settings:
                "one channel in this process, as many in flight as the app has requests; the app's allocator, no profile"
                    .to_owned(),
            samples: Vec::new(),
        };
        let mut rows = vec![self.nginx.row(), publisher, self.app.row()];
        let (rounds, time) = (settings.rounds, settings.time_of_jobs());
        let (connections, requests) = (settings.connections, settings.jobs);
        rounds::take(rounds, time, &mut rows, async |place| {
            purge(&self.channel).await?;
            match place {
                0 => self.nginx.sample(connections, requests).await,
                1 => self.publish(connections, requests).await,
                _ => self.app.sample(connections, requests).await,
            }
        })
        .await?;
        let sum = added_up(&rows[0], &rows[1]);
        rows.insert(2, sum);
        let notes = vec![losses::note(&rows)];
        Ok((rows, notes))
    }

    /// Measures what the app takes beside time.
    ///
    /// # Errors
    /// Fails if a job is not accepted.
    pub async fn footprint(&self, meter: &Meter<'_>) -> Result<Footprint> {
        let script = &self.app.script;
        meter.one(&self.app, script, script).await
    }

    /// Publishes persistent messages to the same kind of queue, and measures this process.
    async fn publish(&self, in_flight: usize, jobs: usize) -> Result<Sample> {
        // The servers are children of this process, and their CPU time does not count here.
        let ours = || Ok(vec![cpu::spent_alone(std::process::id())?]);
        let work = stream::iter(0..jobs)
            .map(|_| confirmed(&self.channel))
            .buffer_unordered(in_flight)
            .try_collect::<()>();
        Sample::take(jobs, ours, work, async {}).await
    }
}

/// Returns the sum of two rows, round by round.
fn added_up(first: &Row, second: &Row) -> Row {
    let rounds = first.samples.iter().zip(&second.samples);
    Row {
        name: SUM,
        yardstick: SUM,
        settings: "the CPU time of both; the rate if one comes after the other".to_owned(),
        samples: rounds.map(|(first, second)| first.then(second)).collect(),
    }
}

/// Connects to the broker, and declares the queue of the app.
async fn connect(broker_url: &str) -> Result<(Connection, Channel)> {
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
    Ok((connection, channel))
}

async fn purge(channel: &Channel) -> Result<()> {
    channel
        .queue_purge(QUEUE.into(), QueuePurgeOptions::default())
        .await?;
    Ok(())
}

/// Publishes one job, and waits for its confirmation.
async fn confirmed(channel: &Channel) -> Result<()> {
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("application/json".into());
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), QUEUE.into(), options, JOB.as_bytes(), properties);
    let confirmation = sent.await?.await?;
    ensure!(
        confirmation.is_ack(),
        "the broker did not confirm a job: {confirmation:?}"
    );
    Ok(())
}
