//! Latency of redirects at parts of the highest rate that the rounds have measured.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio::task::spawn_blocking;

use crate::{
    contender::Contender,
    lineup::{CACHED, DATABASE, Lineup, MAP, THROUGH, TRACED},
    sample::{Row, Sample},
    settings::Settings,
    steady::{Answered, Steady},
    table::found,
};

const CONTENDERS: [&str; 5] = [MAP, CACHED, TRACED, DATABASE, THROUGH];
/// The parts of the highest rate.
const LOADS: [f64; 2] = [0.3, 0.8];
/// The time for which each load is sent.
const DURATION: Duration = Duration::from_secs(3);

/// Latency at one load.
pub struct Latency {
    name: &'static str,
    /// The part of the highest rate.
    load: f64,
    /// Requests per second that were sent.
    rate: f64,
    answered: Answered,
}

/// Measures all contenders after their rounds.
///
/// # Errors
/// Fails if a response is wrong or does not come.
pub async fn measure(settings: &Settings, lineup: &Lineup, rows: &[Row]) -> Result<Vec<Latency>> {
    let mut latencies = Vec::new();
    for load in LOADS {
        for name in CONTENDERS {
            let contender = lineup.contenders.iter().find(|found| found.name == name);
            let (Some(contender), Some(row)) = (contender, found(rows, name)) else {
                continue;
            };
            let rate = load * row.spread(Sample::rate).median;
            let answered = send(settings, contender, rate).await?;
            let latency = Latency {
                name,
                load,
                rate,
                answered,
            };
            eprintln!("latency {}", latency.line());
            latencies.push(latency);
        }
    }
    Ok(latencies)
}

async fn send(settings: &Settings, contender: &Contender, rate: f64) -> Result<Answered> {
    let (address, script) = (contender.address(), Arc::clone(&contender.script));
    let connections = settings.connections;
    let sent = spawn_blocking(move || {
        Steady {
            address,
            script: script.as_ref(),
            connections,
            rate,
            duration: DURATION,
        }
        .send()
    });
    let sent = sent.await.context("the load has panicked")?;
    sent.with_context(|| format!("{} at {rate:.0} per second", contender.name))
}

impl Latency {
    /// Returns the line of the table.
    fn line(&self) -> String {
        let Self {
            name,
            load,
            rate,
            answered,
        } = self;
        let quantiles = [0.5, 0.99, 0.999].map(|share| {
            let latency = answered.quantile(share);
            format!("{:.2}", latency.as_secs_f64() * 1e3)
        });
        format!(
            "| {name} | {:.0} % | {rate:.0} | {:.0} | {} |",
            load * 100.0,
            answered.rate(),
            quantiles.join(" | ")
        )
    }
}

#[must_use]
pub fn table(latencies: &[Latency]) -> String {
    let mut table = String::from(
        "| contender | load | requests per second | responses per second | p50, ms | p99, ms | p99.9, ms |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for latency in latencies {
        table.push_str(&latency.line());
        table.push('\n');
    }
    table
}

/// Explains the loads.
pub const NOTE: &str = "\
The load is a part of the requests per second of the rounds, sent at intended times, from which the latency counts. Where fewer
responses per second came than requests, this machine was at its end: the load generator takes its processor too, and needs more
for a request than in the rounds.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_load_and_three_quantiles() {
        let latency = Latency {
            name: "app",
            load: 0.3,
            rate: 3000.0,
            answered: Answered {
                latencies: (1..=1000).map(Duration::from_micros).collect(),
                elapsed: Duration::from_secs(1),
            },
        };
        assert!(table(&[latency]).ends_with("| app | 30 % | 3000 | 1000 | 0.50 | 0.99 | 1.00 |\n"));
    }
}
