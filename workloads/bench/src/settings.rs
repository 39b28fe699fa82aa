//! The command line.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use clap::Parser;

use crate::links::{self, Popularity};

/// Measures redirects and accepted jobs, and prints the tables.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench", about)]
pub struct Settings {
    /// Binary of the app.
    #[arg(long)]
    pub app: PathBuf,
    /// The app was compiled with its profile, as that of a release.
    #[arg(long)]
    pub profiled: bool,
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
    /// Number of links in the database; 100,000 by default, and 10,000,000 with `--scale`.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=links::MOST))]
    pub links: Option<u32>,
    /// Exponent of Zipf's law, by which links are followed; without it each is followed as often as every other, and with
    /// `--scale` it is 1.
    #[arg(long, value_parser = exponent)]
    pub zipf: Option<f64>,
    /// Writes the baseline instead of comparing with it.
    #[arg(long, conflicts_with = "scale")]
    pub save: bool,
    /// File of the baseline.
    #[arg(long, default_value = "workloads/bench/baseline.json")]
    pub baseline: PathBuf,
    /// Commit that is measured, for the baseline.
    #[arg(long, default_value = "unknown")]
    pub commit: String,
    /// Measures many links, with caches for a part of them, and what they cost the database; nothing else.
    #[arg(long)]
    pub scale: bool,
}

/// Parses an exponent of Zipf's law.
fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok();
    exponent
        .filter(|exponent| (0.0..=10.0).contains(exponent))
        .ok_or_else(|| "must be a number from 0 to 10".to_owned())
}

impl Settings {
    /// Makes sure that a baseline is that of an app like a release's.
    ///
    /// # Errors
    /// Fails if it is to be written without a profile.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.profiled || !self.save,
            "the app was compiled without its profile, and no baseline is written of such an app: run `make pgo` first"
        );
        Ok(())
    }

    /// Returns the time limit of the rounds of redirects; the rest is for the connections and the jobs.
    #[must_use]
    pub fn time_of_redirects(&self) -> Duration {
        Duration::from_secs(self.seconds * 5 / 8)
    }

    /// Returns the time limit of the rounds with many connections.
    #[must_use]
    pub fn time_of_connections(&self) -> Duration {
        Duration::from_secs(self.seconds / 4)
    }

    /// Returns the time limit of the rounds of jobs.
    #[must_use]
    pub fn time_of_jobs(&self) -> Duration {
        Duration::from_secs(self.seconds / 8)
    }

    /// Returns the number of links.
    #[must_use]
    pub fn links(&self) -> usize {
        match (self.links, self.scale) {
            (Some(links), _) => links as usize,
            (None, false) => 100_000,
            (None, true) => 10_000_000,
        }
    }

    /// Returns how often each link is followed.
    #[must_use]
    pub fn popularity(&self) -> Popularity {
        match (self.zipf, self.scale) {
            (Some(exponent), _) => Popularity::zipf(self.links(), exponent),
            (None, false) => Popularity::even(self.links()),
            (None, true) => Popularity::zipf(self.links(), 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[&str]) -> Result<Settings, clap::Error> {
        let command = [&["bench", "--app", "app"], options].concat();
        Settings::try_parse_from(command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Settings::command().debug_assert();
    }

    #[test]
    fn there_are_more_links_at_scale_unless_their_number_is_given() {
        for (options, expected) in [
            (&[][..], 100_000),
            (&["--scale"][..], 10_000_000),
            (&["--scale", "--links", "7"][..], 7),
        ] {
            assert_eq!(parsed(options).unwrap().links(), expected, "{options:?}");
        }
    }

    #[test]
    fn a_baseline_needs_an_app_that_was_compiled_with_its_profile() {
        for (options, expected) in [
            (&[][..], true),
            (&["--save", "--profiled"][..], true),
            (&["--save"][..], false),
        ] {
            let checked = parsed(options).unwrap().check();
            assert_eq!(checked.is_ok(), expected, "{options:?}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for option in [
            "--links=0",
            "--links=1000000001",
            "--zipf=-1",
            "--zipf=much",
        ] {
            let error = parsed(&[option]).unwrap_err().to_string();
            let (name, _) = option.split_once('=').unwrap();
            assert!(error.contains(name), "{error}");
        }
    }
}
