//! The worker of the link shortener: `worker` processes jobs until SIGTERM.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use shortener_common::{
    program::{self, Observed},
    signal::termination,
};
use shortener_worker::{config::WorkerArgs, metrics::Metrics, run::Worker, tasks::Registry};

/// The allocator. It gives the memory of a burst of jobs back to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    program::run("worker", work(WorkerArgs::parse())).await
}

async fn work(args: WorkerArgs) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let memory = args.memory.divide(0)?;
    let observed = Observed::start("worker", version, &args.log, &args.telemetry, &memory)?;
    // As early as possible, so that an early SIGTERM is not lost.
    let stop = termination()?;
    let mut metrics = Metrics::default();
    for losses in observed.losses() {
        metrics.registry.register_collector(losses);
    }
    let worker = Worker::bind(args, metrics, observed.tracer(), Registry::default()).await?;
    tracing::info!(event = "listening", internal.address = %worker.address()?, "listening");
    worker.run(stop).await;
    observed.end().await;
    Ok(())
}
