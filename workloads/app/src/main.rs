//! The link-shortening application: `app serve` (the default) and `app migrate`.

use std::process::ExitCode;

use shortener_app::{
    code::CodeSpace,
    config::{Cli, Command, MigrateArgs, ServeArgs},
    metrics::Metrics,
    run::Server,
    store::migrate::migrate,
};
use shortener_common::signal::termination;

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

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let log = args.log.start()?;
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
    let _log = args.log.start()?;
    migrate(args.database.connect_options()?, args.timeout).await?;
    tracing::info!(event = "migrated", "migrated");
    Ok(())
}
