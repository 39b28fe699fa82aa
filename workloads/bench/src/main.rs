//! The cost of a redirect and of an accepted job, compared with minimal programs.
//!
//! Everything runs on this machine over loopback. The contenders take turns, round by round, so that a slow period
//! of the machine affects all of them. Every response is checked. The main figure is the CPU time of the server per
//! request, because the load generator runs on the same machine.

mod cpu;
mod links;
mod load;
mod nginx;
mod publish;
mod redirect;
mod rounds;
mod server;
mod table;

use std::{path::PathBuf, time::Duration};

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

/// The time limit of everything besides the rounds, after which the benchmark counts as stuck.
const SETTING_UP: Duration = Duration::from_secs(80);

/// Benchmark of redirects and of accepted jobs.
#[derive(Debug, Parser)]
#[command(name = "bench", about)]
pub struct Settings {
    /// Binary of the app.
    #[arg(long)]
    pub app: PathBuf,
    /// Number of rounds per contender.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Time limit of all rounds together, in seconds; a slow machine runs fewer rounds.
    #[arg(long, default_value_t = 210)]
    pub seconds: u64,
    /// Number of redirects per round.
    #[arg(long, default_value_t = 100_000)]
    pub requests: usize,
    /// Number of jobs per round.
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// Number of connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Number of links in the database, in the cache, and in nginx's map.
    #[arg(long, default_value_t = 100_000)]
    pub links: usize,
}

impl Settings {
    /// Returns the time limit of the rounds of redirects; the rest is for the jobs.
    fn time_of_redirects(&self) -> Duration {
        Duration::from_secs(self.seconds * 3 / 4)
    }

    /// Returns the time limit of the rounds of jobs.
    fn time_of_jobs(&self) -> Duration {
        Duration::from_secs(self.seconds / 4)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let settings = Settings::parse();
    let limit = Duration::from_secs(settings.seconds) + SETTING_UP;
    // Before the time limit begins, because an image may have to be pulled.
    servers::DATABASE.addresses()?;
    servers::BROKER.addresses()?;
    servers::VALKEY.addresses()?;
    servers::NGINX.addresses()?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Each branch drops the servers that were started, which ends them.
    tokio::select! {
        done = timeout(limit, run(&settings)) => {
            done.context("the benchmark did not end in time: see its progress above")?
        }
        _ = ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn run(settings: &Settings) -> Result<()> {
    let (redirects, notes) = redirect::measure(settings).await?;
    let jobs = publish::measure(settings).await?;
    println!("\nRedirects, {} connections:\n", settings.connections);
    println!("{}", table::of(&redirects, redirect::YARDSTICK));
    for note in notes {
        println!("{note}");
    }
    println!("\nJobs, {} in flight:\n", settings.connections);
    println!("{}", table::of(&jobs, publish::YARDSTICK));
    println!(
        "The targets, by CPU: {} {}, {} {}, {} {}.",
        redirect::CACHED,
        redirect::AIM,
        redirect::TRACED,
        redirect::AIM_TRACED,
        publish::POSTED,
        publish::AIM
    );
    Ok(())
}
