//! The cost of a redirect and of an accepted job, compared with minimal programs.
//!
//! Everything runs on this machine over loopback. The contenders take turns, round by round, so that a slow period
//! of the machine affects all of them. Every response is checked. The main figure is the CPU time of the server per
//! request, because the load generator runs on the same machine.

mod app;
mod contender;
mod counters;
mod cpu;
mod exchange;
mod footprint;
mod gateway;
mod jobs;
mod ladder;
mod lineup;
mod links;
mod load;
mod memory;
mod nginx;
mod redirect;
mod requests;
mod rounds;
mod sample;
mod server;
mod settings;
mod steps;
mod table;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use shortener_testing::servers;
use tokio::{
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    time::timeout,
};

use crate::{
    app::MEMORY,
    jobs::Jobs,
    lineup::Lineup,
    requests::CLIENTS,
    settings::{Command, Settings},
};

/// The time limit of everything besides the rounds, after which the benchmark counts as stuck.
const SETTING_UP: Duration = Duration::from_secs(150);

#[tokio::main]
async fn main() -> Result<()> {
    match Command::parse() {
        Command::Run(settings) => run_in_time(&settings).await,
        Command::Step(arguments) => steps::serve(&arguments).await,
    }
}

async fn run_in_time(settings: &Settings) -> Result<()> {
    let limit = Duration::from_secs(settings.seconds) + SETTING_UP;
    // Before the time limit begins, because an image may have to be pulled.
    servers::DATABASE.addresses()?;
    servers::BROKER.addresses()?;
    servers::VALKEY.addresses()?;
    servers::NGINX.addresses()?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Each branch drops the servers that were started, which ends them.
    tokio::select! {
        done = timeout(limit, run(settings)) => {
            done.context("the benchmark did not end in time: see its progress above")?
        }
        _ = ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn run(settings: &Settings) -> Result<()> {
    let lineup = Lineup::start(settings).await?;
    let (redirects, notes_of_redirects) = redirect::measure(settings, &lineup).await?;
    let (footprints, notes_of_footprints) = footprint::measure(settings, &lineup).await?;
    drop(lineup);
    let (posted, notes_of_jobs) = Jobs::start(settings).await?.measure(settings).await?;
    let connections = settings.connections;
    println!("\n{}", conditions());
    println!("\n## Redirects, {connections} connections\n");
    println!("{}", table::of(&redirects, &lineup::REDIRECTS));
    println!("{}", notes_of_redirects.join("\n"));
    println!("{}", table::aims(&lineup::AIMS));
    println!("\n## Through the gateway, {connections} connections\n");
    println!("{}", table::of(&redirects, &lineup::THROUGH_THE_GATEWAY));
    println!("## The ladder, {connections} connections\n");
    println!("{}\n{}", ladder::table(&redirects), ladder::NOTE);
    println!("\n## Beside time\n");
    println!("{}", footprint::table(&footprints));
    println!("{}", notes_of_footprints.join("\n"));
    println!("\n## Jobs, {connections} in flight\n");
    println!("{}", table::of(&posted, &jobs::ROWS));
    println!("{}", notes_of_jobs.join("\n"));
    println!("{}", table::aims(&[jobs::AIM]));
    Ok(())
}

/// Describes what all rows have in common.
fn conditions() -> String {
    format!(
        "All rows: loopback without TLS, the head of a browser, and {CLIENTS} clients by `X-Forwarded-For`, none of which is \
         refused.\n\
         All apps, besides what a row names: a stack whose spec says nothing. That is rate limits on (50 a second, burst \
         200), the log on (a pipe that is read), metrics on, `TRUSTED_HOPS=1`, {} MiB, `MALLOC_ARENA_MAX=2`. It differs from \
         a stack in this: the CPU has no limit, nothing is purged at night, and the database keeps its data in memory.",
        MEMORY >> 20
    )
}
