//! Redirects over 100, 1,000 and 10,000 connections.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit};

use crate::{
    contender::Contender,
    lineup::{Lineup, MAP},
    load, losses,
    memory::mebibytes,
    requests::any_link,
    rounds,
    sample::Row,
    settings::Settings,
};

/// The numbers of connections, with the names of nginx and of the app at each.
const SETS: [(usize, [&str; 2]); 3] = [
    (
        100,
        [
            "nginx, map of the links, 100 connections",
            "app, from the cache, 100 connections",
        ],
    ),
    (
        1_000,
        [
            "nginx, map of the links, 1,000 connections",
            "app, from the cache, 1,000 connections",
        ],
    ),
    (
        10_000,
        [
            "nginx, map of the links, 10,000 connections",
            "app, from the cache, 10,000 connections",
        ],
    ),
];

/// The memory of the app, which the most connections need.
const MEMORY: u64 = 1 << 30;
/// The connections that the app takes. At its limit it would close some.
const ALLOWED: usize = 12_000;
/// The time limit of the cache in seconds. With 10,000 requests in flight, its answers wait for their turn in the app for longer
/// than the default, and the app would ask the database, which refuses so many.
const CACHE_TIMEOUT: u64 = 5;
/// The open files of a process beside its connections.
const OTHER_FILES: u64 = 512;
/// The number of rounds. They are longer than others.
const ROUNDS: usize = 3;
/// The least number of requests for each connection.
const REQUESTS: usize = 5;

/// Measures nginx and an app; also returns notes on the results.
///
/// # Errors
/// Fails if a response is wrong.
pub async fn measure(settings: &Settings, lineup: &Lineup) -> Result<(Vec<Row>, Vec<String>)> {
    let nginx = lineup.contenders.iter().find(|found| found.name == MAP);
    let nginx = nginx.context("nginx is not among the contenders")?;
    let environment = lineup
        .cached
        .clone()
        .with("MEMORY_LIMIT_BYTES", MEMORY)
        .with("MAX_CONNECTIONS", ALLOWED)
        .with("CACHE_TIMEOUT_SECONDS", CACHE_TIMEOUT);
    let app = environment.start(&settings.app).await?;
    let script = any_link(settings.popularity());
    let (mut contenders, mut counts, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (count, [name_of_nginx, name_of_app]) in SETS {
        if let Some(note) = too_many(count, open_files()) {
            notes.push(note);
            continue;
        }
        let (entry, script) = (Arc::clone(&nginx.entry), Arc::clone(&script));
        let yardstick = Contender::other(name_of_nginx, &nginx.settings, entry, script.clone());
        let app = Contender {
            yardstick: name_of_nginx,
            ..Contender::app(name_of_app, environment.clone(), Arc::clone(&app), script)
        };
        contenders.extend([yardstick, app]);
        counts.extend([count, count]);
    }
    let mut rows: Vec<Row> = contenders.iter().map(Contender::row).collect();
    let (rounds, time) = (ROUNDS.min(settings.rounds), settings.time_of_connections());
    rounds::take(rounds, time, &mut rows, async |place| {
        let (contender, count) = (&contenders[place], counts[place]);
        let clients = load::connect(contender.address(), count).await?;
        // The app closes a connection whose first request does not come within ten seconds.
        let clients = load::greet(clients, &contender.script).await?;
        let requests = settings.requests.max(REQUESTS * count);
        contender.sample_over(clients, requests).await
    })
    .await?;
    if let Some(app) = contenders.last() {
        let memory = app.memory()?.context("the app has no memory")?;
        notes.push(format!(
            "Highest memory of the app with the most connections: {}.",
            mebibytes(memory.peak)
        ));
        notes.push(losses::note(&rows));
    }
    Ok((rows, notes))
}

/// Returns the reason why there cannot be so many connections with this limit of open files, if there is one.
fn too_many(connections: usize, limit: u64) -> Option<String> {
    let needed = connections as u64 + OTHER_FILES;
    (limit < needed).then(|| {
        format!(
            "{connections} connections are left out: a process may have {limit} open files here, and {needed} are needed; \
             `ulimit -H -n` shows the limit, which an administrator raises"
        )
    })
}

/// Returns the number of files that this process may have open.
fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the names of the rows.
#[must_use]
pub fn names() -> Vec<&'static str> {
    SETS.into_iter().flat_map(|(_, names)| names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_beyond_the_limit_of_open_files_are_left_out_with_the_reason() {
        assert_eq!(too_many(10_000, 10_512), None);
        let note = too_many(10_000, 10_511).unwrap();
        assert!(note.contains("10512 are needed"), "{note}");
    }
}
