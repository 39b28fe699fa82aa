//! The app as it runs in a stack.

use std::{path::Path, process::Stdio, sync::Arc};

use anyhow::{Result, ensure};
use shortener_testing::servers;
use tokio::process::Command;

use crate::{
    load,
    server::{End, Server, free_address, log_that_is_read, wait_until_ok},
};

/// The memory of the app's container in bytes, where the spec says nothing.
pub const MEMORY: u64 = 128 * 1024 * 1024;

/// The settings that the operator gives every app and that the app would not have by itself, besides its memory. A name of
/// a pod stands in each line of the log.
const OPERATED: [(&str, &str); 2] = [
    ("HOSTNAME", "demo-app-7c9d8f6b5d-x2k7p"),
    ("MIMALLOC_ALLOW_THP", "0"),
];

/// The setting that counts clicks, as a stack does whose spec says nothing.
const CLICKS: &str = "CLICKS_ENABLED";

/// The settings of one app. It has those of the operator's Deployment, and these.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Addresses and keys, which every stack has of its own.
    stores: Vec<(&'static str, String)>,
    /// The deviations from a stack whose spec says nothing.
    different: Vec<(&'static str, String)>,
}

impl Environment {
    /// Adds the address or the key of a store.
    #[must_use]
    pub fn store(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.stores.push((name, value.into()));
        self
    }

    /// Adds a setting that differs from a stack whose spec says nothing.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.different.push((name, value.to_string()));
        self
    }

    /// Switches the rate limits off.
    #[must_use]
    pub fn without_limits(self) -> Self {
        self.with("LIMIT_REQUESTS_PER_SECOND", 0)
            .with("LIMIT_SHORTEN_PER_MINUTE", 0)
    }

    /// Counts no clicks.
    #[must_use]
    pub fn without_clicks(self) -> Self {
        self.with(CLICKS, false)
    }

    /// Returns true if the app has a cache.
    #[must_use]
    pub fn has_cache(&self) -> bool {
        self.has_store("CACHE_URL")
    }

    /// Returns true if the app exports traces and log records to a collector.
    #[must_use]
    pub fn exports(&self) -> bool {
        self.has_store("OTEL_EXPORTER_OTLP_ENDPOINT")
    }

    fn has_store(&self, store: &str) -> bool {
        self.stores.iter().any(|(name, _)| *name == store)
    }

    /// Returns true if the app counts clicks.
    #[must_use]
    pub fn counts_clicks(&self) -> bool {
        !self.different.iter().any(|(name, _)| *name == CLICKS)
    }

    /// Describes what differs from a stack whose spec says nothing.
    pub fn differences(&self) -> String {
        if self.different.is_empty() {
            return "the defaults".to_owned();
        }
        let settings = self.different.iter();
        let settings: Vec<String> = settings
            .map(|(name, value)| format!("`{name}={value}`"))
            .collect();
        settings.join(", ")
    }

    /// Starts an app, and waits until it uses its cache, if it has one.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn start(&self, program: &Path) -> Result<Arc<Server>> {
        let server = self.launch(program).await?;
        if self.has_cache() {
            wait_until_ok(async || {
                let up = load::metric(server.address, "cache_up").await?;
                ensure!(up == 1, "the app is not connected to its cache");
                Ok(())
            })
            .await?;
        }
        Ok(server)
    }

    /// Starts an app, and waits until it accepts connections.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn launch(&self, program: &Path) -> Result<Arc<Server>> {
        let address = free_address()?;
        let [database_url] = servers::DATABASE.addresses()?;
        let mut app = Command::new(program);
        // Every app has only these settings, and nothing from the caller's environment.
        app.env_clear()
            .env("DATABASE_URL", database_url)
            .env("APP_LISTEN", address.to_string())
            .env("APP_INTERNAL_LISTEN", "127.0.0.1:0")
            .env("MEMORY_LIMIT_BYTES", MEMORY.to_string())
            // Nothing has to learn that it ends.
            .env("DRAIN_DELAY_SECONDS", "0")
            .envs(OPERATED);
        for (name, value) in self.stores.iter().chain(&self.different) {
            app.env(name, value);
        }
        let end = End::Ask { _folder: None };
        Server::start(app, address, log_that_is_read()?, end).await
    }
}

/// Migrates the schema of the app's database.
///
/// # Errors
/// Fails if the migration fails.
pub async fn migrate(program: &Path) -> Result<()> {
    let [database_url] = servers::DATABASE.addresses()?;
    let mut migrate = Command::new(program);
    migrate
        .arg("migrate")
        .env("DATABASE_URL", database_url)
        .stdout(Stdio::null());
    ensure!(
        migrate.status().await?.success(),
        "`app migrate` failed: see its message above"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The Deployment of the operator.
    const DEPLOYMENT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../operator/core/snapshots/deployment-app.snap"
    );

    #[test]
    fn the_memory_and_the_arenas_are_those_of_the_operator() {
        let deployment = fs::read_to_string(DEPLOYMENT).unwrap();
        let limit = format!("memory: {}Mi\n", MEMORY >> 20);
        assert!(
            deployment.contains(&limit),
            "{limit} is not in {DEPLOYMENT}"
        );
        for (name, value) in OPERATED.iter().filter(|(name, _)| *name != "HOSTNAME") {
            let lines = format!("- name: {name}\n          value: '{value}'\n");
            assert!(
                deployment.contains(&lines),
                "{lines} is not in {DEPLOYMENT}"
            );
        }
    }

    #[test]
    fn an_environment_tells_what_its_app_has() {
        let app = Environment::default();
        let has = |app: &Environment| [app.has_cache(), app.exports(), app.counts_clicks()];
        assert_eq!(has(&app), [false, false, true]);
        assert_eq!(has(&app.clone().without_clicks()), [false; 3]);
        let app = app.store("CACHE_URL", "redis://a");
        assert_eq!(has(&app), [true, false, true]);
        let app = app.store("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
        assert_eq!(has(&app), [true; 3]);
    }

    #[test]
    fn what_differs_from_the_defaults_is_named_and_addresses_are_not() {
        let environment = Environment::default().store("CACHE_URL", "redis://a");
        assert_eq!(environment.differences(), "the defaults");
        assert_eq!(
            environment
                .without_limits()
                .with("TRUSTED_HOPS", 2)
                .differences(),
            "`LIMIT_REQUESTS_PER_SECOND=0`, `LIMIT_SHORTEN_PER_MINUTE=0`, `TRUSTED_HOPS=2`"
        );
    }
}
