//! The optional parts of a server, by its settings.

use std::sync::Arc;

use shortener_common::{
    database::Database,
    documents::Documents,
    memory::Memory,
    server::listen,
    supervised::supervised,
    telemetry::span::Tracer,
    vector::{VectorMetrics, VectorStore},
};
use sqlx::postgres::PgConnectOptions;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

use crate::{
    auth::{Guard, ManagementKey},
    clicks::{ClickMetrics, Clicks, FlushTask},
    code::CodeSpace,
    config::{ManagementArgs, ServeArgs},
    job_ids::JobIds,
    metrics::{AuthMetrics, CacheMetrics, Metrics},
    publisher::{Publisher, letters::DeadLetters, metrics::PublisherMetrics},
    routes::docs::MAX_PAYLOADS,
    state::{Queue, Vector},
    storage::Storage,
    store::{
        cache::{Cache, source::Source},
        clicks::{ClickStore, ClickWriter},
        jobs::Jobs,
        postgres::Links,
        replica::{Replica, ReplicaMetrics},
        webhooks::Outbox,
    },
    webhooks::overdue::Overdue,
};

/// Opens the management port; `None` without a key.
pub(super) fn management(
    args: &ManagementArgs,
) -> anyhow::Result<Option<(TcpListener, ManagementKey)>> {
    let Some(key) = args.management_key.as_deref() else {
        return Ok(None);
    };
    Ok(Some((listen(args.management_listen)?, key.into())))
}

/// Returns the state for jobs; `None` without a broker.
pub(super) fn queue(
    config: &ServeArgs,
    metrics: &mut Metrics,
    memory: &Memory,
    database: &Database,
    tracer: &Tracer,
) -> anyhow::Result<Option<Queue>> {
    let broker = config.queue.broker()?;
    let retention_days = config.purge.purge_retention_days;
    Ok(broker.map(|broker| {
        let publisher = Publisher::start(
            broker.clone(),
            JobIds::new(config.job_id_key.as_deref(), retention_days),
            memory.jobs.clone(),
            PublisherMetrics::register(&mut metrics.registry),
            tracer.clone(),
        );
        Queue {
            jobs: Jobs::new(database.clone()),
            letters: DeadLetters::new(broker, publisher.clone(), database),
            publisher,
        }
    }))
}

/// Returns the reserve of the database, and follows its size in the background.
pub(super) fn storage(
    config: &ServeArgs,
    metrics: &mut Metrics,
    database: &Database,
    background: &mut JoinSet<()>,
) -> Storage {
    let storage = Storage::register(&mut metrics.registry, config.database_capacity_bytes);
    let follow = storage.clone().follow(database.clone());
    background.spawn(supervised("storage", follow));
    storage
}

/// Shows in the background for how long webhooks have been due.
pub(super) fn webhooks(metrics: &mut Metrics, database: &Database, background: &mut JoinSet<()>) {
    let outbox = Outbox::new(database.clone());
    let follow = Overdue::register(&mut metrics.registry).follow(outbox);
    background.spawn(supervised("webhooks", follow));
}

/// Returns the clicks and the task that writes them; `None` if they are not counted.
pub(super) fn clicks(
    config: &ServeArgs,
    metrics: &mut Metrics,
    memory: &Memory,
    database: &Database,
) -> anyhow::Result<Option<(Clicks, FlushTask)>> {
    if !config.clicks_enabled {
        return Ok(None);
    }
    let store = ClickStore::new(database.clone());
    let writer = ClickWriter::new(config.database.connect_options()?);
    let metrics = ClickMetrics::register(&mut metrics.registry);
    let clicks = Clicks::start(memory.clicks, store, writer, metrics);
    Ok(Some(clicks))
}

/// Returns the check of keys, and follows their folders in the background.
pub(super) fn guard(
    config: &ServeArgs,
    metrics: &mut Metrics,
    background: &mut JoinSet<()>,
) -> Guard {
    let folders = config.auth.auth_keys_directory.clone();
    if folders.is_empty() {
        return Guard::without_keys(&config.public_url);
    }
    let (mut guard, watcher) = Guard::with_keys(
        &config.public_url,
        config.auth.auth_protect,
        folders,
        AuthMetrics::register(&mut metrics.registry),
    );
    background.spawn(supervised("keys", watcher.run()));
    let proxy = config.auth.proxy.settings();
    let proxy = proxy.and_then(|(settings, folder)| guard.trust_proxy(settings, folder));
    if let Some(secrets) = proxy {
        background.spawn(supervised("proxy_secrets", secrets.run()));
    }
    guard
}

/// Connects to the database, and to the servers that follow it, if there are any.
pub(super) fn database(
    config: &ServeArgs,
    metrics: &mut Metrics,
    space: CodeSpace,
) -> anyhow::Result<(Database, Option<Replica>)> {
    let options = config.database.connect_options()?;
    let replica = replica(config, metrics, &config.database.server_options()?, space);
    let database = Database::connect(
        "shortener-app",
        options,
        config.database_max_connections,
        metrics.database_up.clone(),
        &metrics.database_lanes,
    );
    Ok((database, replica))
}

/// Returns the links on servers that follow the database with these options; `None` without such servers.
fn replica(
    config: &ServeArgs,
    metrics: &mut Metrics,
    database: &PgConnectOptions,
    space: CodeSpace,
) -> Option<Replica> {
    let options = config.replica.connect_options(database)?;
    let metrics = ReplicaMetrics::register(&mut metrics.registry);
    let replica = Database::connect(
        "shortener-app-replica",
        options,
        config.database_max_connections,
        metrics.up.clone(),
        &Default::default(),
    );
    Some(Replica::new(Links::new(replica, space), &metrics))
}

pub(super) fn cache(
    config: &ServeArgs,
    metrics: &mut Metrics,
) -> anyhow::Result<Option<Arc<Cache>>> {
    let source = Source::new(&config.cache)?;
    Ok(source.map(|source| {
        let metrics = CacheMetrics::register(&mut metrics.registry);
        Arc::new(Cache::start(source, &config.cache, metrics))
    }))
}

pub(super) fn vector(
    config: &ServeArgs,
    metrics: &mut Metrics,
    database: &Database,
) -> anyhow::Result<Option<Vector>> {
    let register = || VectorMetrics::register(&mut metrics.registry);
    let store = VectorStore::new(&config.vector, register)?;
    Ok(store.map(|store| Vector {
        documents: Documents::new(database.clone()),
        store: Arc::new(store),
        payloads: Arc::new(Semaphore::new(MAX_PAYLOADS)),
    }))
}
