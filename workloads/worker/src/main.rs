//! The worker of the link shortener: `worker` processes jobs until SIGTERM.

use std::process::ExitCode;

use clap::Parser;
use shortener_common::signal::termination;
use shortener_worker::{config::WorkerArgs, metrics::Metrics, run::Worker, tasks::Registry};

#[tokio::main]
async fn main() -> ExitCode {
    // With two providers linked in, TLS panics unless one was named; a dependency may bring a second at any time.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match work(WorkerArgs::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn work(args: WorkerArgs) -> anyhow::Result<()> {
    let log = args.log.start()?;
    // From the first moment on, so that an early SIGTERM is not lost.
    let stop = termination()?;
    let mut metrics = Metrics::default();
    metrics.register(log.dropped_lines());
    let worker = Worker::bind(args, metrics, Registry::default()).await?;
    tracing::info!(event = "listening", internal.address = %worker.address()?, "listening");
    worker.run(stop).await;
    Ok(())
}
