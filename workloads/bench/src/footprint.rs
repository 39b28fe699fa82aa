//! What a contender takes beside time: instructions, cache misses and allocations for each request, memory, and the time
//! of a start.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::{
    contender::Contender,
    counters::{self, Counts},
    lineup::Lineup,
    links::Popularity,
    load,
    memory::{Memory, mebibytes},
    requests::{any_link, every_link},
    sample::Spread,
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

/// What one contender takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint {
    /// Its name.
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

/// Measures all contenders after their rounds; also returns notes on what cannot be measured here.
///
/// # Errors
/// Fails if a response is wrong.
pub async fn measure(
    settings: &Settings,
    lineup: &Lineup,
) -> Result<(Vec<Footprint>, Vec<String>)> {
    let mut notes = Vec::new();
    let obstacle = counters::obstacle().await;
    if let Some(obstacle) = &obstacle {
        notes.push(format!(
            "Instructions and cache misses are not counted: {obstacle}."
        ));
    }
    if settings.counting.is_none() {
        let remedy = "`--counting` names the program that counts them";
        notes.push(format!("Allocations are not counted: {remedy}."));
    }
    let mut footprints = Vec::new();
    for contender in &lineup.contenders {
        eprintln!("what it takes beside time: {}", contender.name);
        // Before the counting, which would add to it.
        let memory = contender.memory()?;
        let counts = match obstacle {
            None => Some(count(settings, contender).await?),
            Some(_) => None,
        };
        let each = |count: u64| count as f64 / settings.requests as f64;
        footprints.push(Footprint {
            name: contender.name,
            instructions: counts.map(|counts| each(counts.instructions)),
            cache_misses: counts.map(|counts| each(counts.cache_misses)),
            allocations: allocations(settings, contender).await?,
            memory,
        });
    }
    notes.push(start(settings, lineup).await?);
    Ok((footprints, notes))
}

/// Counts instructions and cache misses of all servers on the way.
async fn count(settings: &Settings, contender: &Contender) -> Result<Counts> {
    let work = async {
        contender
            .sample(settings.connections, settings.requests)
            .await?;
        anyhow::Ok(())
    };
    counters::count(&contender.processes()?, work).await
}

/// Returns the allocations of one request, by the program that counts them with the settings of the contender. The way
/// through a gateway is left out: the app does the same there.
async fn allocations(settings: &Settings, contender: &Contender) -> Result<Option<f64>> {
    let (Some(program), Some(environment), None) =
        (&settings.counting, &contender.app, &contender.behind)
    else {
        return Ok(None);
    };
    let app = environment.start(program).await?;
    let (address, connections) = (app.address, settings.connections);
    let links = LINKS.min(settings.links());
    load::run(address, connections, 4 * links, &every_link(links)).await?;
    let before = load::metric(address, ALLOCATIONS).await?;
    let script = any_link(Popularity::even(links));
    load::run(address, connections, COUNTED, &script).await?;
    let allocated = load::metric(address, ALLOCATIONS).await? - before;
    Ok(Some(allocated as f64 / COUNTED as f64))
}

/// Describes the program of the app and its start, from the start of the process to its first redirect.
async fn start(settings: &Settings, lineup: &Lineup) -> Result<String> {
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

/// Returns the table. A column without any value is left out.
#[must_use]
pub fn table(footprints: &[Footprint]) -> String {
    let number = |value: Option<f64>, digits: usize| value.map(|value| format!("{value:.digits$}"));
    let columns: [(&str, &dyn Fn(&Footprint) -> Option<String>); 5] = [
        ("instructions", &|row| number(row.instructions, 0)),
        ("cache misses", &|row| number(row.cache_misses, 1)),
        ("allocations", &|row| number(row.allocations, 1)),
        ("memory after the rounds", &|row| {
            row.memory.map(|memory| mebibytes(memory.resident))
        }),
        ("highest memory", &|row| {
            row.memory.map(|memory| mebibytes(memory.peak))
        }),
    ];
    let columns = columns
        .into_iter()
        .filter(|(_, value)| footprints.iter().any(|row| value(row).is_some()));
    let columns: Vec<_> = columns.collect();
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
