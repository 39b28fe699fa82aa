//! The link-shortening application: `app serve` (the default) and `app migrate`.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use shortener_app::{
    code::CodeSpace,
    config::{Cli, Command, LogArgs, MigrateArgs, ServeArgs},
    metrics::Metrics,
    run::{Server, termination},
    store::migrate::migrate,
};
use shortener_common::logging::{self, Logging};

#[tokio::main]
async fn main() -> ExitCode {
    // With two providers linked in, TLS panics unless one was named; a dependency may bring a second at any time.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let result = match Cli::from_command_line().command {
        Command::Serve(args) => serve(*args).await,
        Command::Migrate(args) => run_migrations(args).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("app: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn init_log(args: &LogArgs) -> anyhow::Result<Logging> {
    logging::init(&args.rust_log, &args.host())
        .map_err(|error| anyhow!(error))
        .context("RUST_LOG is invalid")
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let log = init_log(&args.log)?;
    // From the first moment on, so that an early SIGTERM is not lost.
    let stop = termination()?;
    let mut metrics = Metrics::default();
    metrics.register(log.dropped_lines());
    let server = Server::bind(args, metrics, CodeSpace::default()).await?;
    let (public, internal) = server.addresses()?;
    tracing::info!(event = "listening", public.address = %public, internal.address = %internal, "listening");
    server.run(stop).await;
    Ok(())
}

async fn run_migrations(args: MigrateArgs) -> anyhow::Result<()> {
    let _log = init_log(&args.log)?;
    migrate(args.database.connect_options()?, args.timeout).await?;
    tracing::info!(event = "migrated", "migrated");
    Ok(())
}
