//! The command `app dead-letters`: does what the admin API does with dead letters, for those who may run a program in a pod
//! of the app. They need no key. `kubectl shortener dlq` runs it and reads its answer.

use std::{
    io::{self, Write},
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use prometheus_client::registry::Registry;
use shortener_common::{
    config::{DatabaseArgs, LogArgs, QueueArgs},
    database::Database,
    memory::Memory,
    queue::OPERATION_TIMEOUT,
    telemetry::span::Tracer,
    tls::explained,
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{
    error::Error,
    job_ids::JobIds,
    publisher::{
        Publisher,
        letters::{Choice, DeadLetters, LettersError, Operation},
        metrics::PublisherMetrics,
    },
    routes::admin::{
        dead_letters::bodies::{DeadLetterDetails, DeadLetterPage},
        plain_text,
    },
    store::audit::Cause,
};

/// The time limit of a command. The broker takes messages back that are kept without an acknowledgement for 30 minutes.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// The time for which a command waits for the database.
const DATABASE_GRACE: Duration = Duration::from_secs(10);

/// Settings of `app dead-letters`.
#[derive(Clone, Debug, Args)]
pub struct DeadLettersArgs {
    /// The action.
    #[command(subcommand)]
    pub action: Action,
    /// The message broker.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// The database, for the audit log.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The log, for the identity of this replica.
    #[command(flatten)]
    pub log: LogArgs,
}

/// An action on dead letters.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// List dead letters, the oldest first, and the number of all.
    Ls {
        /// Number of dead letters to skip.
        #[arg(long, default_value_t = 0)]
        skip: u32,
        /// Maximum number of dead letters to list.
        #[arg(long, default_value_t = 100)]
        limit: u16,
    },
    /// Show a dead letter with its body.
    Show {
        /// Identifier of the job.
        id: Uuid,
    },
    /// Put dead letters back into the queue of jobs, with the same identifiers.
    Replay(Sweep),
    /// Delete dead letters for good.
    Drop(Sweep),
}

/// An operation on dead letters.
#[derive(Clone, Debug, Args)]
pub struct Sweep {
    /// The choice.
    #[command(flatten)]
    pub which: Which,
    /// Reason for the audit log.
    #[arg(long, value_parser = plain_text)]
    pub reason: Option<String>,
}

/// A choice of dead letters: some, or all.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Identifiers of the jobs.
    #[arg(value_name = "ID")]
    pub ids: Vec<Uuid>,
    /// Every dead letter.
    #[arg(long)]
    pub all: bool,
}

impl From<Which> for Choice {
    fn from(which: Which) -> Self {
        match which.all {
            true => Self::All,
            false => Self::Ids(which.ids.into_iter().collect()),
        }
    }
}

/// Runs the command, and prints the body of the admin API's response.
///
/// # Errors
/// Fails if the queue profile is off, if the broker fails, or if the dead letter to show was not found.
pub async fn run(args: DeadLettersArgs) -> anyhow::Result<()> {
    let letters = open(&args).await?;
    // The cause of a refused certificate is not in the error's own text.
    let failed = |error: LettersError| anyhow::anyhow!(explained(&error));
    let (sweep, operation) = match args.action {
        Action::Ls { skip, limit } => {
            let page = letters.list(skip as usize, limit.into()).await;
            return print(&DeadLetterPage::from(page.map_err(failed)?));
        }
        Action::Show { id } => {
            let found = letters.find(id).await.map_err(failed)?;
            let (letter, body) =
                found.with_context(|| format!("no dead letter has the id {id}"))?;
            return print(&DeadLetterDetails::from(letter).with_body(body));
        }
        Action::Replay(sweep) => (sweep, Operation::Replay),
        Action::Drop(sweep) => (sweep, Operation::Drop),
    };
    let cause = Cause {
        by: format!("pod/{}", args.log.host()),
        reason: sweep.reason,
    };
    let swept = letters.sweep(sweep.which.into(), operation, &cause).await;
    print(&swept.map_err(failed)?)
}

/// Connects to the broker, and to the database if it is up. Nothing is logged and measured: no one reads it.
async fn open(args: &DeadLettersArgs) -> anyhow::Result<DeadLetters> {
    let broker = args.queue.broker()?;
    let broker = broker.ok_or(Error::ProfileDisabled("queue"))?;
    let options = args.database.connect_options()?;
    let up = Default::default();
    let database = Database::connect(
        "shortener-dead-letters",
        options,
        1,
        up,
        &Default::default(),
    );
    let publisher = Publisher::start(
        broker.clone(),
        JobIds::default(),
        Memory::default().jobs,
        PublisherMetrics::register(&mut Registry::default()),
        Tracer::default(),
    );
    // If it does not connect in time, the dead letters say why.
    let _ = timeout(OPERATION_TIMEOUT, publisher.connected()).await;
    if matches!(args.action, Action::Replay(_) | Action::Drop(_)) {
        database.wait_until_up(DATABASE_GRACE).await;
    }
    let mut letters = DeadLetters::new(broker, publisher, &database);
    letters.limit = LIMIT;
    Ok(letters)
}

fn print(answer: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(answer)?;
    writeln!(io::stdout(), "{text}").context("cannot write the answer")
}
