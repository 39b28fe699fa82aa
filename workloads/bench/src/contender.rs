//! The contenders: servers, and the load that they get in turn.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Result;
use shortener_testing::otlp::Sink;
use tokio::time::{Instant, sleep};

use crate::{
    app::Environment,
    cpu,
    exchange::Script,
    load::{self, Client},
    losses::Counts,
    memory::Memory,
    sample::{Row, Sample},
    server::Server,
};

/// The time after which a collector that got nothing has everything: the app sends what waits after a second.
const SILENCE: Duration = Duration::from_millis(1500);
/// The interval at which the collector is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A server with its load.
pub struct Contender {
    pub name: &'static str,
    /// The name of the contender that it is compared with.
    pub yardstick: &'static str,
    /// Its settings, for people.
    pub settings: String,
    /// The server that gets the requests.
    pub entry: Arc<Server>,
    /// The server that the first one asks, if there is one.
    pub behind: Option<Arc<Server>>,
    /// The requests.
    pub script: Arc<Script>,
    /// The environment of the app; `None` if there is none.
    pub app: Option<Environment>,
    /// The collector of its spans, if it has one of its own.
    pub collector: Option<Sink>,
    /// True if the cache of its app has room for a part of the links only, so that misses belong to its work.
    pub has_small_cache: bool,
}

impl Contender {
    /// Returns another program than the app, with these settings.
    pub fn other(
        name: &'static str,
        settings: &str,
        entry: Arc<Server>,
        script: Arc<Script>,
    ) -> Self {
        Self {
            name,
            yardstick: name,
            settings: settings.to_owned(),
            entry,
            behind: None,
            script,
            app: None,
            collector: None,
            has_small_cache: false,
        }
    }

    /// Returns an app with this environment.
    pub fn app(
        name: &'static str,
        environment: Environment,
        entry: Arc<Server>,
        script: Arc<Script>,
    ) -> Self {
        let settings = environment.differences();
        Self {
            app: Some(environment),
            ..Self::other(name, &settings, entry, script)
        }
    }

    /// Returns the address that gets the requests.
    pub fn address(&self) -> SocketAddr {
        self.entry.address
    }

    /// Returns the row of its rounds, without any yet.
    pub fn row(&self) -> Row {
        Row {
            name: self.name,
            yardstick: self.yardstick,
            settings: self.settings.clone(),
            samples: Vec::new(),
        }
    }

    /// Makes this number of requests over this number of new connections.
    ///
    /// # Errors
    /// Fails if a response is wrong.
    pub async fn sample(&self, connections: usize, requests: usize) -> Result<Sample> {
        let clients = load::connect(self.address(), connections).await?;
        self.sample_over(clients, requests).await
    }

    /// Makes this number of requests over these connections.
    ///
    /// # Errors
    /// Fails if a response is wrong, or if the app does not tell what it left out.
    pub async fn sample_over(&self, clients: Vec<Client>, requests: usize) -> Result<Sample> {
        let before = Counts::of(self).await?;
        // They stay open until the CPU time was read, because closing them is no part of a request.
        let mut open = Vec::new();
        let work = async {
            open = load::drive(clients, requests, &self.script).await?;
            anyhow::Ok(())
        };
        let mut sample = Sample::take(requests, || self.cpu(), work, self.rest()).await?;
        drop(open);
        sample.lost = Counts::of(self).await?.since(&before);
        Ok(sample)
    }

    fn cpu(&self) -> Result<Vec<Duration>> {
        let servers = std::iter::once(&self.entry).chain(&self.behind);
        servers.map(|server| server.cpu()).collect()
    }

    /// Returns the numbers of all processes on the way of the requests.
    ///
    /// # Errors
    /// Fails if a server has ended.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let mut processes = Vec::new();
        for server in std::iter::once(&self.entry).chain(&self.behind) {
            processes.extend(cpu::family(server.pid()?)?);
        }
        Ok(processes)
    }

    /// Returns the memory of the app, if there is one.
    ///
    /// # Errors
    /// Fails if the app has ended.
    pub fn memory(&self) -> Result<Option<Memory>> {
        let server = self.server_of_app();
        server.map(|server| Memory::of(server.pid()?)).transpose()
    }

    /// Returns the server with the app, if there is one.
    #[must_use]
    pub fn server_of_app(&self) -> Option<&Server> {
        self.app.as_ref()?;
        Some(self.behind.as_ref().unwrap_or(&self.entry))
    }

    /// Waits until the collector has all spans of the requests so far: exporting them is a part of their cost.
    async fn rest(&self) {
        let Some(collector) = &self.collector else {
            return;
        };
        let (mut taken, mut since) = (collector.spans_taken(), Instant::now());
        while since.elapsed() < SILENCE {
            sleep(LOOK).await;
            let now = collector.spans_taken();
            if now != taken {
                (taken, since) = (now, Instant::now());
            }
        }
    }
}
