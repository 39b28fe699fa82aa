//! The cost of a redirect and of an accepted job, compared with minimal programs.
//!
//! Everything runs on this machine over loopback. The contenders take turns, round by round, so that a slow period
//! of the machine affects all of them. Every response is checked. The main figure is the CPU time of the server per
//! request, because the load generator runs on the same machine.

mod app;
mod baseline;
mod connections;
mod contender;
mod counters;
mod cpu;
mod database;
mod exchange;
mod footprint;
mod gateway;
mod jobs;
mod latency;
mod lineup;
mod links;
mod load;
mod losses;
mod machine;
mod memory;
mod nginx;
mod redirect;
mod report;
mod requests;
mod rounds;
mod sample;
mod scale;
mod server;
mod settings;
mod steady;
mod table;
mod zipf;

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use mimalloc::MiMalloc;
use shortener_common::open_files;
use shortener_testing::servers;
use tokio::{
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    time::timeout,
};

use crate::{
    app::MEMORY, baseline::Baseline, footprint::Meter, jobs::Jobs, lineup::Lineup, report::Report,
    requests::CLIENTS, settings::Settings,
};

/// The allocator of the app: the bare publisher is a part of this process, and is measured beside the app.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The time limit of everything besides the rounds, after which the benchmark counts as stuck.
const SETTING_UP: Duration = Duration::from_secs(240);

#[tokio::main]
async fn main() -> Result<()> {
    let settings = &Settings::parse();
    settings.check()?;
    // For ten thousand connections. The servers inherit the limit.
    open_files::allow(0);
    let limit = match settings.scale {
        true => scale::LIMIT,
        false => Duration::from_secs(settings.seconds) + SETTING_UP,
    };
    // Before the time limit begins, because an image may have to be pulled.
    servers::DATABASE.addresses()?;
    servers::BROKER.addresses()?;
    servers::VALKEY.addresses()?;
    servers::NGINX.addresses()?;
    // After some work of this process, which has to have cost something.
    cpu::check()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut report = Report::default();
    // Each branch drops the servers that were started, which ends them.
    let ended = tokio::select! {
        done = timeout(limit, run(settings, &mut report)) => {
            done.context("the benchmark did not end in time: see its progress above").flatten()
        }
        _ = ctrl_c() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("terminated")),
    };
    // Also what was measured before an error.
    print!("{report}");
    ended
}

async fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    report.text(&conditions(settings));
    if settings.scale {
        return scale::measure(settings, report).await;
    }
    let lineup = Lineup::start(settings).await?;
    let connections = settings.connections;
    let (mut rows, notes) = redirect::measure(settings, &lineup).await?;
    report.title(&format!("Redirects, {connections} connections"));
    report.text(&table::of(&rows, &lineup::REDIRECTS));
    report.text(&notes.join("\n"));
    report.text(&table::aims(&lineup::AIMS));
    report.title(&format!("Through the gateway, {connections} connections"));
    report.text(&table::of(&rows, &lineup::THROUGH_THE_GATEWAY));
    let latencies = latency::measure(settings, &lineup, &rows).await?;
    report.title(&format!("Latency, {connections} connections"));
    report.text(&latency::table(&latencies));
    report.text(latency::NOTE);
    let (connected, notes) = connections::measure(settings, &lineup).await?;
    report.title("Many connections");
    report.text(&table::of(&connected, &connections::names()));
    report.text(&notes.join("\n"));
    rows.extend(connected);
    let meter = Meter::new(settings).await;
    let mut footprints = meter.redirects(&lineup).await?;
    let start = footprint::start(settings, &lineup).await?;
    drop(lineup);
    let jobs = Jobs::start(settings).await?;
    let (posted, notes) = jobs.measure(settings).await?;
    report.title(&format!("Jobs, {connections} in flight"));
    report.text(&table::of(&posted, &jobs::ROWS));
    report.text(&notes.join("\n"));
    report.text(&table::aims(&[jobs::AIM]));
    rows.extend(posted);
    footprints.push(jobs.footprint(&meter).await?);
    report.title("Beside time");
    report.text(&footprint::table(&footprints));
    report.text(&meter.notes().join("\n"));
    report.text(&start);
    compare(
        settings,
        &Baseline::of(&settings.commit, settings.profiled, &rows, &footprints),
        report,
    )
}

/// Says what has moved since the baseline, or makes this run the baseline.
fn compare(settings: &Settings, run: &Baseline, report: &mut Report) -> Result<()> {
    let path = &settings.baseline;
    report.title("What has moved");
    report.text(&run.compared(path)?);
    if settings.save {
        run.write(path)?;
        report.text(&format!("{} has this run now: commit it.", path.display()));
    }
    Ok(())
}

/// Describes what all rows have in common.
fn conditions(settings: &Settings) -> String {
    let compiled = match settings.profiled {
        true => "with its profile",
        false => "**without a profile**, which costs more: `make pgo` writes one",
    };
    format!(
        "All rows: loopback without TLS, the head of a browser, and {CLIENTS} clients by `X-Forwarded-For`, none of which is \
         refused.\n\
         The app is compiled like that of a release, {compiled}.\n\
         All apps, besides what a row names: a stack whose spec says nothing. That is rate limits on (50 a second, burst \
         200), the log on (a pipe that is read), metrics on, `TRUSTED_HOPS=1`, {} MiB, `MIMALLOC_ALLOW_THP=0`. It differs from \
         a stack in this: the CPU has no limit, nothing is purged at night, an app ends without a delay \
         (`DRAIN_DELAY_SECONDS=0`), and the database keeps its data in memory.",
        MEMORY >> 20
    )
}
