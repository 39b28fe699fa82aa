//! What a redirect and an accepted job cost, beside programs that do as little as can be done.
//!
//! Everything runs on this machine over loopback. The contenders take turns, round by round, so that a machine that is
//! slow for a while is slow for all of them; every answer is checked. The main figure is the CPU time that the server
//! spends on one request, because the load generator shares the machine with it.

mod cpu;
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
use tokio::{
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    time::timeout,
};

/// What setting up may take beside the rounds, until something must be stuck.
const SETTING_UP: Duration = Duration::from_secs(80);

/// What is measured, and for how long.
#[derive(Debug, Parser)]
#[command(name = "bench", about)]
pub struct Settings {
    /// The app's binary.
    #[arg(long)]
    pub app: PathBuf,
    /// Database for the app; everything in it may be overwritten.
    #[arg(long, env, hide_env_values = true)]
    pub database_url: String,
    /// Broker for the app.
    #[arg(long, env = "TEST_BROKER_URL", hide_env_values = true)]
    pub broker_url: String,
    /// Rounds of each contender.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds that all rounds may take together: where the machine is too slow for all of them there are fewer.
    #[arg(long, default_value_t = 210)]
    pub seconds: u64,
    /// Redirects in one round.
    #[arg(long, default_value_t = 100_000)]
    pub requests: usize,
    /// Jobs in one round.
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// Connections, each with one request under way.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Links in the database, in the cache, and in nginx's map.
    #[arg(long, default_value_t = 100_000)]
    pub links: usize,
}

impl Settings {
    /// The time of the rounds of redirects; what remains is that of the jobs.
    fn time_of_redirects(&self) -> Duration {
        Duration::from_secs(self.seconds * 3 / 4)
    }

    /// The time of the rounds of jobs.
    fn time_of_jobs(&self) -> Duration {
        Duration::from_secs(self.seconds / 4)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let settings = Settings::parse();
    let limit = Duration::from_secs(settings.seconds) + SETTING_UP;
    let mut terminate = signal(SignalKind::terminate())?;
    // Whatever ends it, it ends what it started.
    tokio::select! {
        done = timeout(limit, run(&settings)) => {
            done.context("the benchmark is stuck: see above how far it came")?
        }
        _ = ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("told to end"),
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
    println!("\nJobs, {} under way:\n", settings.connections);
    println!("{}", table::of(&jobs, publish::YARDSTICK));
    println!(
        "The aims, by CPU: {} {}, {} {}, {} {}.",
        redirect::CACHED,
        redirect::AIM,
        redirect::TRACED,
        redirect::AIM_TRACED,
        publish::POSTED,
        publish::AIM
    );
    Ok(())
}
