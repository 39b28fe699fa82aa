//! Settings of the cache.

use std::{num::NonZeroU64, time::Duration};

use clap::{Args, ValueEnum};
use shortener_common::config::{port, seconds, url_of};

/// The port of Redis and Valkey.
const PORT: u16 = 6379;

/// How the cache is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheMode {
    /// One server.
    Single,
    /// The master that Sentinels name; the addresses are those of the Sentinels.
    Sentinel,
    /// A cluster; the addresses are some of its nodes.
    Cluster,
}

/// Where the cache is and how long it remembers.
#[derive(Clone, Debug, Args)]
pub struct CacheArgs {
    /// `redis://host:port/database`, `rediss://` for TLS; for Sentinel and Cluster several, separated by commas.
    /// Absent: no cache. Every stack needs a database or a server of its own, because the keys hold only the code.
    #[arg(long, env, hide_env_values = true)]
    pub cache_url: Option<String>,
    /// In the place of a URL: the server's name or address. TLS and several addresses need a URL.
    #[arg(long, env)]
    pub cache_host: Option<String>,
    /// The port of that server, 6379 when absent.
    #[arg(long, env, value_parser = port)]
    pub cache_port: Option<u16>,
    /// Takes precedence over the user in the URL.
    #[arg(long, env)]
    pub cache_username: Option<String>,
    /// Takes precedence over the password in the URL. With Sentinel the URL's is for the Sentinels, and this one for
    /// the servers behind them.
    #[arg(long, env, hide_env_values = true)]
    pub cache_password: Option<String>,
    /// How the cache is run.
    #[arg(long, env, value_enum, default_value_t = CacheMode::Single)]
    pub cache_mode: CacheMode,
    /// The name under which the Sentinels know the master.
    #[arg(long, env, default_value = "mymaster")]
    pub cache_sentinel_master: String,
    /// How long a link is remembered, give or take a tenth, and never past its own expiry.
    #[arg(long, env, default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    pub cache_ttl_seconds: u32,
    /// How long a request waits for the cache before it goes on without it, in seconds.
    #[arg(long = "cache-timeout-seconds", env = "CACHE_TIMEOUT_SECONDS", default_value = "0.1", value_parser = seconds)]
    pub cache_timeout: Duration,
    /// Memory for copies of the links that are followed most, in bytes, in this process. The server keeps them true (RESP3
    /// client tracking); those of a cluster cannot. 0: no such copies.
    #[arg(long, env, default_value_t = 0)]
    pub cache_near_bytes: u64,
}

impl CacheArgs {
    /// The addresses; none when the cache is off.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let urls = self.cache_url.iter().flat_map(|urls| urls.split(','));
        let urls = urls.map(str::trim).filter(|url| !url.is_empty());
        let urls: Vec<String> = urls.map(str::to_owned).collect();
        let host = self.cache_host.as_deref().map(str::trim);
        match host.filter(|host| urls.is_empty() && !host.is_empty()) {
            Some(host) => vec![url_of("redis", host, self.cache_port.unwrap_or(PORT))],
            None => urls,
        }
    }

    /// Memory for copies in this process, if there are to be any.
    #[must_use]
    pub fn near(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.cache_near_bytes)
    }

    /// How long a link is remembered.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_secs(self.cache_ttl_seconds.into())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        cache: CacheArgs,
    }

    fn urls(arguments: &[&str]) -> Vec<String> {
        let program = ["program"];
        Settings::parse_from(program.iter().chain(arguments))
            .cache
            .urls()
    }

    #[test]
    fn a_cache_has_the_addresses_of_its_url_or_the_one_of_its_host() {
        assert!(urls(&[]).is_empty());
        assert!(urls(&["--cache-url", "", "--cache-host", ""]).is_empty());
        assert_eq!(
            urls(&["--cache-url", "redis://a, redis://b"]),
            ["redis://a", "redis://b"]
        );
        assert_eq!(urls(&["--cache-host", "a"]), ["redis://a:6379"]);
        assert_eq!(
            urls(&["--cache-host", "fd00::1", "--cache-port", "1"]),
            ["redis://[fd00::1]:1"]
        );
        assert_eq!(
            urls(&["--cache-url", "redis://a", "--cache-host", "b"]),
            ["redis://a"]
        );
    }
}
