//! The program: reads the settings, opens the store and runs both servers until a signal stops the process.

use std::fs;

use anyhow::Context;
use clap::Parser;
use qdrant_stand_in::{server, settings::Settings};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let settings = Settings::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    // Like the real server, it does not start without a folder for snapshots.
    fs::create_dir_all(&settings.snapshots_path).with_context(|| {
        format!(
            "cannot create {}: mount something there that may be written to, or set QDRANT__STORAGE__SNAPSHOTS_PATH",
            settings.snapshots_path.display()
        )
    })?;
    let server = server::Server::bind(&settings).await?;
    log::info!("Qdrant HTTP listening on {}", server.http_address()?.port());
    log::info!("Qdrant gRPC listening on {}", server.grpc_address()?.port());
    if let Err(error) = fs::write(&settings.init_file_path, "") {
        log::warn!("Failed to create init file indicator: {error}");
    }
    server.run(stop).await
}
