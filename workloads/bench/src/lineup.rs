//! The contenders in redirects: their servers, their settings, and the load that each gets.

use std::sync::Arc;

use anyhow::Result;
use shortener_testing::otlp::Sink;

use crate::{
    app::{self, Environment},
    contender::Contender,
    gateway,
    links::fill,
    load, nginx,
    requests::{any_link, every_link, health_of_gateway, one_destination},
    server::{self, CACHE_MEMORY, Server},
    settings::Settings,
};

const CONSTANT: &str = "nginx, return 302";
/// The yardstick of redirects.
pub const MAP: &str = "nginx, map of the links";
/// The app with all links in its cache.
pub const CACHED: &str = "app, from the cache";
const CACHED_UNCOUNTED: &str = "app, from the cache, clicks off";
const CACHED_FREE: &str = "app, from the cache, limits off";
const CACHED_BARE: &str = "app, from the cache, limits and log off";
/// The app with a cache, and with every trace exported to a collector on this machine.
pub const TRACED: &str = "app, from the cache, traced";
/// The app without a cache.
pub const DATABASE: &str = "app, from the database";
/// The yardstick of the way through the gateway.
const GATEWAY: &str = "gateway, by itself";
/// The gateway in front of an app.
pub const THROUGH: &str = "gateway, then the app, from the cache";

/// The rows of the table of redirects.
pub const REDIRECTS: [&str; 8] = [
    CONSTANT,
    MAP,
    CACHED,
    CACHED_UNCOUNTED,
    CACHED_FREE,
    CACHED_BARE,
    TRACED,
    DATABASE,
];
/// The rows of the table of the gateway.
pub const THROUGH_THE_GATEWAY: [&str; 2] = [GATEWAY, THROUGH];

/// The aims of the app, relative to the yardstick.
pub const AIMS: [(&str, f64); 3] = [(CACHED, 0.45), (TRACED, 0.30), (DATABASE, 0.33)];

/// The attributes that a stack's telemetry has.
const RESOURCE: &str = "k8s.namespace.name=links,k8s.deployment.name=demo-app,k8s.pod.name=demo-app-7c9d8f6b5d-x2k7p,shortener.stack=demo";

/// The running contenders, and what they share.
pub struct Lineup {
    /// The contenders in the order of their turns.
    pub contenders: Vec<Contender>,
    /// The collector of the app that exports its traces.
    pub collector: Sink,
    /// The environment of an app with the cache.
    pub cached: Environment,
    _cache: Arc<Server>,
}

impl Lineup {
    /// Starts every contender, and fills the cache.
    ///
    /// # Errors
    /// Fails if a server does not start.
    pub async fn start(settings: &Settings) -> Result<Self> {
        app::migrate(&settings.app).await?;
        fill(settings.links()).await?;
        let cache = server::cache(CACHE_MEMORY).await?;
        let cache_url = format!("redis://{}", cache.address);
        let (collector, endpoint) = Sink::start().await;
        let mut lineup = Self {
            contenders: others(settings).await?,
            collector,
            cached: Environment::default().store("CACHE_URL", cache_url),
            _cache: cache,
        };
        lineup.add_apps(settings, &endpoint).await?;
        lineup.add_gateway(settings).await?;
        lineup.fill_cache(settings).await?;
        Ok(lineup)
    }

    /// Adds the apps that get their requests directly, as from a gateway.
    async fn add_apps(&mut self, settings: &Settings, collector: &str) -> Result<()> {
        let cached = self.cached.clone();
        let traced = cached
            .clone()
            .store("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
            .store("OTEL_RESOURCE_ATTRIBUTES", RESOURCE);
        for (name, environment) in [
            (
                CACHED_BARE,
                cached.clone().without_limits().with("RUST_LOG", "off"),
            ),
            (CACHED_FREE, cached.clone().without_limits()),
            (CACHED_UNCOUNTED, cached.clone().without_clicks()),
            (CACHED, cached),
            (TRACED, traced),
            (DATABASE, Environment::default()),
        ] {
            eprintln!("starting: {name}");
            let server = environment.start(&settings.app).await?;
            let script = any_link(settings.popularity());
            let app = Contender::app(name, environment, server, script);
            self.contenders.push(Contender {
                yardstick: MAP,
                collector: (name == TRACED).then(|| self.collector.clone()),
                ..app
            });
        }
        Ok(())
    }

    /// Adds the gateway, which answers by itself or asks an app.
    async fn add_gateway(&mut self, settings: &Settings) -> Result<()> {
        eprintln!("starting: {GATEWAY}");
        // The load seems to come from a load balancer, which names the client, and to which the gateway adds its name.
        let environment = self.cached.clone().with("TRUSTED_HOPS", 2);
        let app = environment.start(&settings.app).await?;
        let gateway = gateway::start(app.address).await?;
        let rendered = "the nginx.conf that the operator renders";
        let itself = Contender::other(
            GATEWAY,
            &format!("{rendered}; its answer at `/gateway-health`"),
            Arc::clone(&gateway),
            health_of_gateway(),
        );
        let through = Contender {
            yardstick: GATEWAY,
            settings: format!(
                "{rendered}; the app has {}, because a load balancer names the clients",
                environment.differences()
            ),
            behind: Some(app),
            ..Contender::app(
                THROUGH,
                environment,
                gateway,
                any_link(settings.popularity()),
            )
        };
        self.contenders.extend([itself, through]);
        Ok(())
    }

    /// Follows every link, which fills the cache for all apps.
    async fn fill_cache(&self, settings: &Settings) -> Result<()> {
        let (connections, links) = (settings.connections, settings.links());
        eprintln!("following {links} links");
        for contender in self.contenders.iter().filter(|found| found.name == CACHED) {
            load::run(contender.address(), connections, links, &every_link(links)).await?;
        }
        Ok(())
    }
}

/// Starts the contenders without an app.
async fn others(settings: &Settings) -> Result<Vec<Contender>> {
    let popularity = settings.popularity();
    let beside_map = |name, settings: &str, server| Contender {
        yardstick: MAP,
        ..Contender::other(name, settings, server, one_destination(popularity))
    };
    let workers = "one worker per core, no log";
    let mut others = vec![beside_map(CONSTANT, workers, nginx::constant().await?)];
    let map = nginx::map(settings.links()).await?;
    others.push(Contender::other(MAP, workers, map, any_link(popularity)));
    Ok(others)
}
