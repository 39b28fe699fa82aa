//! The resources of a contender beside time: instructions, cache misses and allocations for each request, memory, and the time
//! of a start.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::{
    contender::Contender,
    counters::{self, Counts},
    exchange::Script,
    lineup::Lineup,
    links::Popularity,
    load,
    memory::{Memory, mebibytes},
    requests::{any_link, every_link},
    sample::Spread,
    server::wait_until_ok,
    settings::Settings,
};

/// The metric of the allocations, which only the program has that counts them.
const ALLOCATIONS: &str = "allocations_total";
/// The number of links that are followed while allocations are counted. They are in every cache by then.
const LINKS: usize = 1000;
/// The number of requests whose allocations are counted.
const COUNTED: usize = 10_000;
/// The number of starts that are measured.
const STARTS: usize = 5;
/// The time limit of a start.
const START: Duration = Duration::from_secs(30);
/// The interval at which an app that starts is asked again.
const RETRY: Duration = Duration::from_millis(1);

/// The resources of one contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint {
    pub name: &'static str,
    /// Instructions for each request.
    pub instructions: Option<f64>,
    /// Cache misses for each request.
    pub cache_misses: Option<f64>,
    /// Allocations for each request.
    pub allocations: Option<f64>,
    /// The memory of its app.
    pub memory: Option<Memory>,
}

/// The means to measure a footprint on this machine.
pub struct Meter<'a> {
    settings: &'a Settings,
    /// The reason why the processor counts nothing, if it does not.
    obstacle: Option<String>,
}

impl<'a> Meter<'a> {
    /// Finds out what can be measured.
    pub async fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            obstacle: counters::obstacle().await,
        }
    }

    /// Returns notes on what cannot be measured.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let obstacle = self.obstacle.as_ref();
        let counters = obstacle
            .map(|obstacle| format!("Instructions and cache misses are not counted: {obstacle}."));
        let counting = self.settings.counting.is_none().then(|| {
            "Allocations are not counted: `--counting` names the program that does so.".to_owned()
        });
        counters.into_iter().chain(counting).collect()
    }

    /// Measures the contenders in redirects after their rounds.
    ///
    /// # Errors
    /// Fails if a response is wrong.
    pub async fn redirects(&self, lineup: &Lineup) -> Result<Vec<Footprint>> {
        let links = LINKS.min(self.settings.links());
        let (every, any) = (every_link(links), any_link(Popularity::even(links)));
        let mut footprints = Vec::new();
        for contender in &lineup.contenders {
            footprints.push(self.one(contender, &every, &any).await?);
        }
        Ok(footprints)
    }

    /// Measures a contender after its rounds. Its allocations are those of `requests`, once `first` has been asked.
    ///
    /// # Errors
    /// Fails if a response is wrong.
    pub async fn one(
        &self,
        contender: &Contender,
        first: &Arc<Script>,
        requests: &Arc<Script>,
    ) -> Result<Footprint> {
        eprintln!("what it takes beside time: {}", contender.name);
        // Before the counting, which would add to it.
        let memory = contender.memory()?;
        let counts = match self.obstacle {
            None => Some(self.count(contender).await?),
            Some(_) => None,
        };
        let each = |count: u64| count as f64 / self.settings.requests as f64;
        Ok(Footprint {
            name: contender.name,
            instructions: counts.map(|counts| each(counts.instructions)),
            cache_misses: counts.map(|counts| each(counts.cache_misses)),
            allocations: self.allocations(contender, first, requests).await?,
            memory,
        })
    }

    /// Counts instructions and cache misses of all servers on the way.
    async fn count(&self, contender: &Contender) -> Result<Counts> {
        let (connections, requests) = (self.settings.connections, self.settings.requests);
        let work = async {
            contender.sample(connections, requests).await?;
            anyhow::Ok(())
        };
        counters::count(&contender.processes()?, work).await
    }

    /// Returns the allocations of one request, by the program that counts them with the settings of the contender. The
    /// way through a gateway is left out: the app does the same there.
    async fn allocations(
        &self,
        contender: &Contender,
        first: &Arc<Script>,
        requests: &Arc<Script>,
    ) -> Result<Option<f64>> {
        let (Some(program), Some(environment), None) =
            (&self.settings.counting, &contender.app, &contender.behind)
        else {
            return Ok(None);
        };
        let app = environment.start(program).await?;
        let (address, connections) = (app.address, self.settings.connections);
        wait_until_ok(async || load::run(address, 1, 1, first).await).await?;
        load::run(address, connections, 4 * LINKS, first).await?;
        let before = load::metric(address, ALLOCATIONS).await?;
        load::run(address, connections, COUNTED, requests).await?;
        let allocated = load::metric(address, ALLOCATIONS).await? - before;
        Ok(Some(allocated as f64 / COUNTED as f64))
    }
}

/// Describes the program of the app and its start, from the start of the process to its first redirect.
///
/// # Errors
/// Fails if the app does not start.
pub async fn start(settings: &Settings, lineup: &Lineup) -> Result<String> {
    let size = fs::metadata(&settings.app).context("cannot read the program of the app")?;
    let script = any_link(settings.popularity());
    let (mut times, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begin = Instant::now();
        let app = lineup.cached.launch(&settings.app).await?;
        // It listens before it serves.
        while let Err(refusal) = load::run(app.address, 1, 1, &script).await {
            if begin.elapsed() > START {
                return Err(refusal.context("the app redirects nothing after its start"));
            }
            sleep(RETRY).await;
        }
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        idle.push(Memory::of(app.pid()?)?.resident as f64 / f64::from(1 << 20));
    }
    Ok(format!(
        "The program of the app has {}. With a cache it redirects {} ms after its start, and has {} MiB then.",
        mebibytes(size.len()),
        Spread::of(times.into_iter()).show(0),
        Spread::of(idle.into_iter()).show(1)
    ))
}

/// A column: its title, and its value in a row.
type Column = (&'static str, fn(&Footprint) -> Option<String>);

const COLUMNS: [Column; 5] = [
    ("instructions", |row| number(row.instructions, 0)),
    ("cache misses", |row| number(row.cache_misses, 1)),
    ("allocations", |row| number(row.allocations, 1)),
    ("memory after the rounds", |row| {
        row.memory.map(|memory| mebibytes(memory.resident))
    }),
    ("highest memory", |row| {
        row.memory.map(|memory| mebibytes(memory.peak))
    }),
];

fn number(value: Option<f64>, digits: usize) -> Option<String> {
    value.map(|value| format!("{value:.digits$}"))
}

/// Returns the table. A column without any value is left out.
#[must_use]
pub fn table(footprints: &[Footprint]) -> String {
    let columns = COLUMNS
        .into_iter()
        .filter(|(_, value)| footprints.iter().any(|row| value(row).is_some()));
    let columns: Vec<Column> = columns.collect();
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut table = format!("| contender | {} |\n", titles.join(" | "));
    table.push_str(&format!("| --- |{}\n", " --- |".repeat(columns.len())));
    for row in footprints {
        let values = columns
            .iter()
            .map(|(_, value)| value(row).unwrap_or_default());
        let values: Vec<String> = values.collect();
        table.push_str(&format!("| {} | {} |\n", row.name, values.join(" | ")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_any_value_is_left_out() {
        let nginx = Footprint {
            name: "nginx",
            instructions: None,
            cache_misses: None,
            allocations: None,
            memory: None,
        };
        let app = Footprint {
            name: "app",
            allocations: Some(57.04),
            memory: Some(Memory {
                resident: 10 << 20,
                peak: 12 << 20,
            }),
            ..nginx.clone()
        };
        assert_eq!(
            table(&[nginx, app]),
            "| contender | allocations | memory after the rounds | highest memory |\n\
             | --- | --- | --- | --- |\n\
             | nginx |  |  |  |\n\
             | app | 57.0 | 10.0 MiB | 12.0 MiB |\n"
        );
    }
}
