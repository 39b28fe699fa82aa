//! The contenders: servers, and the load that they get in turn.

use std::{borrow::Borrow, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Result;
use shortener_testing::otlp::Sink;
use tokio::time::{Instant, sleep};

use crate::{
    app::Environment,
    cpu,
    exchange::Script,
    load::{self, Client},
    memory::Memory,
    sample::{Row, Sample},
    server::Server,
};

/// The time after which a collector that got nothing has everything: the app sends what waits after a second.
const SILENCE: Duration = Duration::from_millis(1500);
/// The interval at which the collector is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The metric of log lines that the app dropped.
const DROPPED_LINES: &str = "log_dropped_lines_total";

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
    /// Fails if a response is wrong.
    pub async fn sample_over(&self, clients: Vec<Client>, requests: usize) -> Result<Sample> {
        // They stay open until the CPU time was read, because closing them is no part of a request.
        let mut open = Vec::new();
        let work = async {
            open = load::drive(clients, requests, &self.script).await?;
            anyhow::Ok(())
        };
        let sample = Sample::take(requests, || self.cpu(), work, self.rest()).await;
        drop(open);
        sample
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
    fn server_of_app(&self) -> Option<&Server> {
        self.app.as_ref()?;
        Some(self.behind.as_ref().unwrap_or(&self.entry))
    }

    /// Returns the value of a series in the metrics of the app; 0 if there is no app, or no series.
    ///
    /// # Errors
    /// Fails if the app does not tell.
    pub async fn metric(&self, series: &str) -> Result<u64> {
        match self.server_of_app() {
            Some(server) => load::metric(server.address, series).await,
            None => Ok(0),
        }
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

/// Describes the lines of the log that the apps dropped because the benchmark did not read them in time. A dropped line
/// costs less than a written one: above one of a hundred, the row is not valid.
///
/// # Errors
/// Fails if an app does not tell.
pub async fn dropped_lines(contenders: &[impl Borrow<Contender>], rows: &[Row]) -> Result<String> {
    let mut note = "Lines of the log that were dropped: 0".to_owned();
    for contender in contenders.iter().map(Borrow::borrow) {
        let rows = rows.iter().filter(|row| row.name == contender.name);
        let samples = rows.flat_map(|row| &row.samples);
        let requests: usize = samples.map(|sample| sample.requests).sum();
        let dropped = contender.metric(DROPPED_LINES).await?;
        if dropped > 0 {
            let verdict = verdict(dropped, requests as u64);
            note.push_str(&format!("; {dropped} by \"{}\"{verdict}", contender.name));
        }
    }
    note.push('.');
    Ok(note)
}

/// Returns the verdict on a row of which a part was dropped instead of handled.
pub fn verdict(dropped: u64, all: u64) -> &'static str {
    match 100 * dropped > all {
        true => {
            " (too many: the row is not valid; run it with fewer --connections, or with nothing else on the machine)"
        }
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_valid_while_one_of_a_hundred_is_dropped() {
        assert_eq!(verdict(1, 100), "");
        assert!(verdict(2, 100).contains("not valid"));
    }
}
