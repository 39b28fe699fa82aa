//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser};

use crate::{
    links::{self, Popularity},
    steps,
};

/// Benchmark of redirects and of accepted jobs.
#[derive(Debug, Parser)]
#[command(name = "bench", about)]
pub enum Command {
    /// Measures everything, and prints the tables.
    Run(Settings),
    /// Serves one step of the ladder. The benchmark starts these servers by itself.
    #[command(hide = true)]
    Step(steps::Arguments),
}

/// The settings of the measurements.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Binary of the app.
    #[arg(long)]
    pub app: PathBuf,
    /// Binary of the app that counts its allocations. Without it, they are not counted.
    #[arg(long)]
    pub counting: Option<PathBuf>,
    /// Number of rounds per contender.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Time limit of all rounds together, in seconds; a slow machine runs fewer rounds.
    #[arg(long, default_value_t = 200)]
    pub seconds: u64,
    /// Number of redirects per round.
    #[arg(long, default_value_t = 50_000)]
    pub requests: usize,
    /// Number of jobs per round.
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// Number of connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Number of links in the database, in the cache, and in nginx's map.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=links::MOST))]
    pub links: u32,
}

impl Settings {
    /// Returns the time limit of the rounds of redirects; the rest is for the connections and the jobs.
    #[must_use]
    pub fn time_of_redirects(&self) -> Duration {
        Duration::from_secs(self.seconds * 3 / 4)
    }

    /// Returns the time limit of the rounds with many connections.
    #[must_use]
    pub fn time_of_connections(&self) -> Duration {
        Duration::from_secs(self.seconds / 8)
    }

    /// Returns the time limit of the rounds of jobs.
    #[must_use]
    pub fn time_of_jobs(&self) -> Duration {
        Duration::from_secs(self.seconds / 8)
    }

    /// Returns the number of links.
    #[must_use]
    pub fn links(&self) -> usize {
        self.links as usize
    }

    /// Returns how often each link is followed.
    #[must_use]
    pub fn popularity(&self) -> Popularity {
        Popularity::even(self.links())
    }
}
