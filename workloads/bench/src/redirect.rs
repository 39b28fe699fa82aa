//! Redirects: nginx, and the app with its links in its own memory, in its cache and in its database, with the rate limits
//! on and off, and with every request traced.

use std::sync::Arc;

use anyhow::{Result, ensure};
use shortener_testing::otlp::Sink;

use crate::{
    app::{self, Environment, MEMORY},
    contender::{Contender, dropped_lines, verdict},
    links::fill,
    load, nginx,
    requests::{any_link, every_link, one_destination},
    rounds,
    sample::Row,
    server::{self, Server},
    settings::Settings,
};

/// The yardstick.
const MAP: &str = "nginx, map of the links";
/// The app with all links in its own memory.
const NEAR: &str = "app, from its own memory";
/// The app with all links in its cache.
const CACHED: &str = "app, from the cache";
/// The app with a cache, and with every trace exported to a collector on this machine.
const TRACED: &str = "app, from the cache, traced";
/// The app without a cache.
const DATABASE: &str = "app, from the database";
/// The aims of the app, relative to the yardstick.
pub const AIMS: [(&str, f64); 4] = [
    (NEAR, 0.90),
    (CACHED, 0.75),
    (TRACED, 0.55),
    (DATABASE, 0.45),
];

/// The memory for copies in the app in bytes: 100,000 links of 200 bytes fit three times.
const NEAR_BYTES: u64 = 64 * 1024 * 1024;

const MISSES: &str = r#"cache_requests_total{result="miss"}"#;
const DROPPED_SPANS: &str = r#"otel_dropped_total{signal="traces"}"#;

/// The running contenders, and what they share.
pub struct Redirects {
    /// The contenders in the order of their turns.
    pub contenders: Vec<Contender>,
    collector: Sink,
    _cache: Arc<Server>,
}

impl Redirects {
    /// Starts every contender, and fills the cache and the memory of the apps.
    ///
    /// # Errors
    /// Fails if a server does not start.
    pub async fn start(settings: &Settings) -> Result<Self> {
        app::migrate(&settings.app).await?;
        fill(settings.links()).await?;
        let cache = server::cache().await?;
        let (collector, endpoint) = Sink::start().await;
        let environment =
            Environment::default().store("CACHE_URL", format!("redis://{}", cache.address));
        let near = environment
            .clone()
            .with("CACHE_NEAR_BYTES", NEAR_BYTES)
            // As in a stack, where the container grows with the copies.
            .with("MEMORY_LIMIT_BYTES", MEMORY + NEAR_BYTES / 2 * 3);
        let traced = environment
            .clone()
            .store("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .store("OTEL_RESOURCE_ATTRIBUTES", RESOURCE);
        let apps = [
            (NEAR, near),
            (
                "app, from the cache, limits off",
                environment.clone().without_limits(),
            ),
            (CACHED, environment),
            (TRACED, traced),
            (DATABASE, Environment::default()),
        ];
        let mut contenders = yardsticks(settings).await?;
        for (name, environment) in apps {
            eprintln!("starting: {name}");
            let server = environment.start(&settings.app).await?;
            let script = any_link(settings.popularity());
            contenders.push(Contender::app(name, environment, server, script).beside(MAP));
        }
        let mut redirects = Self {
            contenders,
            collector,
            _cache: cache,
        };
        redirects.prepare(settings).await?;
        Ok(redirects)
    }

    /// Fills the cache and the memory of the apps, and hands the collector to the app that uses it.
    async fn prepare(&mut self, settings: &Settings) -> Result<()> {
        for contender in &mut self.contenders {
            if contender.name == TRACED {
                contender.collector = Some(self.collector.clone());
            }
        }
        let (connections, links) = (settings.connections, settings.links());
        // The first one fills the cache for all. A link may be copied into memory only when it is followed again.
        for name in [CACHED, NEAR, NEAR] {
            eprintln!("following {links} links: {name}");
            for contender in self.contenders.iter().filter(|found| found.name == name) {
                load::run(contender.address(), connections, links, &every_link(links)).await?;
            }
        }
        Ok(())
    }

    /// Measures every contender; also returns notes on the results.
    ///
    /// # Errors
    /// Fails if a response is wrong.
    pub async fn measure(&self, settings: &Settings) -> Result<(Vec<Row>, Vec<String>)> {
        let contenders = &self.contenders;
        let before = self.misses().await?;
        let mut rows: Vec<Row> = contenders.iter().map(Contender::row).collect();
        let (rounds, time) = (settings.rounds, settings.time_of_redirects());
        rounds::take(rounds, time, &mut rows, async |place| {
            contenders[place]
                .sample(settings.connections, settings.requests)
                .await
        })
        .await?;
        let missed = self.misses().await? - before;
        let notes = vec![
            format!("Redirects that missed the cache: {missed}."),
            dropped_lines(contenders, &rows).await?,
            self.spans().await?,
        ];
        Ok((rows, notes))
    }

    async fn misses(&self) -> Result<u64> {
        let mut misses = 0;
        for contender in &self.contenders {
            if contender.app.is_some() {
                misses += load::metric(contender.address(), MISSES).await?;
            }
        }
        Ok(misses)
    }

    /// Describes the exported spans.
    async fn spans(&self) -> Result<String> {
        let taken = self.collector.spans_taken();
        let mut dropped = 0;
        for contender in &self.contenders {
            if contender.collector.is_some() {
                dropped += load::metric(contender.address(), DROPPED_SPANS).await?;
            }
        }
        ensure!(taken > 0, "the app with tracing has exported no span");
        let verdict = verdict(dropped, taken + dropped);
        Ok(format!(
            "Spans accepted by the collector: {taken}; spans dropped: {dropped}{verdict}."
        ))
    }
}

/// The attributes that a stack's telemetry has.
const RESOURCE: &str = "k8s.namespace.name=links,k8s.deployment.name=demo-app,k8s.pod.name=demo-app-7c9d8f6b5d-x2k7p,shortener.stack=demo";

async fn yardsticks(settings: &Settings) -> Result<Vec<Contender>> {
    let popularity = settings.popularity();
    let constant = nginx::constant().await?;
    let map = nginx::map(settings.links()).await?;
    let script = any_link(popularity);
    Ok(vec![
        Contender::other(
            "nginx, return 302",
            "one worker per core, no log, the same destination for every link",
            constant,
            one_destination(popularity),
        )
        .beside(MAP),
        Contender::other(MAP, "one worker per core, no log", map, script),
    ])
}
