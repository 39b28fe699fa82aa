//! Measures the operator with many stacks, beside many Secrets of others.
//!
//! It measures one stack alone and with the Secrets, then a wave of stacks from their creation to their deletion, then a
//! second wave with a restart of the operator: memory that the first wave has left shows there. It does not judge: the
//! table at the end has the aims beside the values. `make bench-operator` calls it.

mod bench;
mod edits;
mod foreign;
mod objects;
mod progress;
mod report;
mod restart;
mod wave;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use kube::Client;
use shortener_e2e::cluster_client;

use crate::{bench::Bench, objects::delete, report::Report, wave::Wave};

/// The sizes of a run, and the image of the meter.
struct Settings {
    /// Stacks of a wave (`BENCH_STACKS`).
    stacks: usize,
    /// Secrets of others (`BENCH_SECRETS`).
    secrets: usize,
    /// An image with bash (`E2E_POSTGRES_IMAGE`).
    image: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let settings = Settings {
        stacks: number("BENCH_STACKS")?,
        secrets: number("BENCH_SECRETS")?,
        image: variable("E2E_POSTGRES_IMAGE")?,
    };
    ensure!(settings.stacks > 0, "BENCH_STACKS is 0: set 1 or more");
    let client = cluster_client().await?;
    // An interrupted run may have left its namespaces on a cluster that stays.
    delete(&client, None).await?;
    let mut report = Report::default();
    let outcome = measure(&client, &settings, &mut report).await;
    let cleaned = delete(&client, None).await;
    // Also after a failure: the rows before it have taken their time.
    report.print();
    outcome.and(cleaned.map(|_| ()))
}

async fn measure(client: &Client, settings: &Settings, report: &mut Report) -> Result<()> {
    let Settings {
        stacks,
        secrets,
        image,
    } = settings;
    let mut bench = Bench::begin(client, image, report).await?;

    let alone = Wave::new(client, "alone", 1);
    bench.create(&alone).await?;
    bench.rest("alone").await?;
    bench.edits(&alone).await?;
    bench.secrets(*secrets).await?;
    bench.rest(&format!("alone, {secrets} Secrets")).await?;
    bench.delete(&alone).await?;

    let first = Wave::new(client, "first", *stacks);
    bench.create(&first).await?;
    bench.rest(&first.title()).await?;
    bench.edits(&first).await?;
    bench.delete(&first).await?;
    bench.rest("after the first wave").await?;

    let second = Wave::new(client, "second", *stacks);
    bench.create(&second).await?;
    bench.rest(&second.title()).await?;
    bench.restart(&second).await?;
    bench.rest("after the restart").await
}

fn number(name: &str) -> Result<usize> {
    let text = variable(name)?;
    let number = text.parse::<usize>();
    number.with_context(|| format!("{name} is no number: {text}"))
}

fn variable(name: &str) -> Result<String> {
    let value = std::env::var(name);
    value
        .with_context(|| format!("{name} is not set: call this program with `make bench-operator`"))
}
