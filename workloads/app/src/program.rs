//! The whole program: `app serve` (the default), `app migrate`, `app webhooks`, `app purge`, `app check-links`, `app authorities` and
//! `app dead-letters`.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, anyhow};
use prometheus_client::collector::Collector;
use shortener_common::{
    database::Database,
    memory::Memory,
    open_files,
    program::{self, Observed},
    purge::remove_expired,
    signal::termination,
};

use crate::{
    authorities,
    code::CodeSpace,
    config::{CheckLinksArgs, Cli, Command, MigrateArgs, PurgeOnceArgs, ServeArgs, WebhooksArgs},
    dead_letters,
    metrics::Metrics,
    run::Server,
    state,
    store::{migrate::migrate, pooler, sample, webhooks::receivers},
    webhooks::{client::Trust, metrics, run::Webhooks},
};

/// The time for which `app purge` and `app check-links` wait for the database.
const DATABASE_GRACE: Duration = Duration::from_secs(30);

/// Runs the program by its command line. A binary around it may have metrics of its own: the benchmark's has an allocator
/// that counts, which only a binary can choose.
#[tokio::main]
pub async fn run(more: Vec<Box<dyn Collector>>) -> ExitCode {
    let work = async {
        match Cli::from_command_line().command {
            Command::Serve(args) => serve(*args, more).await,
            Command::Migrate(args) => run_migrations(*args).await,
            Command::DeadLetters(args) => dead_letters::run(*args).await,
            Command::Webhooks(args) => webhooks(*args).await,
            Command::Purge(args) => purge(*args).await,
            Command::CheckLinks(args) => check_links(*args).await,
            Command::Authorities(args) => authorities::copy(&args),
        }
    };
    program::run("app", work).await
}

async fn serve(args: ServeArgs, more: Vec<Box<dyn Collector>>) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let memory = args.divide_memory()?;
    let observed = Observed::start("app", version, &args.log, &args.telemetry, &memory)?;
    // As early as possible, so that an early SIGTERM is not lost.
    let stop = termination()?;
    open_files::allow(args.open_files(&memory));
    let mut metrics = Metrics::default();
    for collector in observed.losses().into_iter().chain(more) {
        metrics.registry.register_collector(collector);
    }
    memory.register(&mut metrics.registry);
    let parts = state::Observed {
        metrics,
        tracer: observed.tracer(),
        memory,
    };
    let server = Server::bind(args, parts, CodeSpace::default()).await?;
    let (public, internal) = server.addresses()?;
    let management = server.management_address()?;
    tracing::info!(
        event = "listening",
        public.address = %public,
        internal.address = %internal,
        management.address = management.map(display),
        "listening"
    );
    server.run(stop).await;
    observed.end().await;
    Ok(())
}

async fn run_migrations(args: MigrateArgs) -> anyhow::Result<()> {
    let _log = args.log.start(None, &Memory::default())?;
    let server = args.database.server_options()?;
    migrate(server.clone(), args.timeout).await?;
    receivers::apply(server.clone(), &args.webhooks).await?;
    if let Some(pooler) = args.database.pooler_options()? {
        pooler::open(server, pooler, args.timeout).await?;
    }
    tracing::info!(event = "migrated", "migrated");
    Ok(())
}

async fn webhooks(args: WebhooksArgs) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let memory = Memory::default();
    let observed = Observed::start("webhooks", version, &args.log, &args.telemetry, &memory)?;
    // As early as possible, so that an early SIGTERM is not lost.
    let stop = termination()?;
    let mut metrics = metrics::Metrics::of(&args.webhooks);
    for losses in observed.losses() {
        metrics.registry.register_collector(losses);
    }
    let webhooks = Webhooks::bind(args, metrics, Trust::default())?;
    tracing::info!(event = "listening", internal.address = %webhooks.address()?, "listening");
    webhooks.run(stop).await;
    observed.end().await;
    Ok(())
}

async fn check_links(args: CheckLinksArgs) -> anyhow::Result<()> {
    let _log = args.log.start(None, &Memory::default())?;
    let options = args.database.connect_options()?;
    let up = Default::default();
    let database = Database::connect("shortener-check", options, 2, up, &Default::default());
    database.wait_until_up(DATABASE_GRACE).await;
    let links = sample::check(&database).await?;
    tracing::info!(
        event = "checked",
        links,
        "every link of the sample resolves"
    );
    Ok(())
}

async fn purge(args: PurgeOnceArgs) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let memory = Memory::default();
    let observed = Observed::start("purge", version, &args.log, &args.telemetry, &memory)?;
    let stop = termination()?;
    let options = args.database.connect_options()?;
    let up = Default::default();
    let database = Database::connect("shortener-purge", options, 1, up, &Default::default());
    database.wait_until_up(DATABASE_GRACE).await;
    let result = tokio::select! {
        removed = remove_expired(&database, args.extent) => {
            removed.context("cannot remove expired data")
        }
        // What was removed until then stays removed.
        () = stop => Err(anyhow!("stopped before all expired data was removed")),
    };
    observed.end().await;
    result
}
