//! The settings of the cache.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use shortener_common::{
    config::{CacheTlsFiles, port, seconds, url_of},
    tls::TlsSettings,
};

/// The default port of Redis and Valkey.
const PORT: u16 = 6379;

/// The topology of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheMode {
    /// One server.
    Single,
    /// A master that Sentinels report; the addresses are those of the Sentinels.
    Sentinel,
    /// A cluster; the addresses are some of its nodes.
    Cluster,
}

/// Addresses, credentials and entry lifetime of the cache.
#[derive(Clone, Debug, Args)]
pub struct CacheArgs {
    /// `redis://host:port/database`, or `rediss://` for TLS; several, separated by commas, for Sentinel and
    /// Cluster. There is no cache without a URL or host. Every stack needs its own database or server, because keys
    /// contain only the code.
    #[arg(long, env, hide_env_values = true)]
    pub cache_url: Option<String>,
    /// Host name or address of the cache, as an alternative to a URL. Several addresses need a URL.
    #[arg(long, env)]
    pub cache_host: Option<String>,
    /// Port of the cache, used with the host; 6379 by default.
    #[arg(long, env, value_parser = port)]
    pub cache_port: Option<u16>,
    /// User name; takes precedence over the user in the URL.
    #[arg(long, env)]
    pub cache_username: Option<String>,
    /// Password; takes precedence over the password in the URL. With Sentinel, the password in the URL is for the
    /// Sentinels, and this one is for the servers behind them.
    #[arg(long, env, hide_env_values = true)]
    pub cache_password: Option<String>,
    /// Uses TLS whatever the scheme of the URL is, and verifies the server's certificate.
    #[arg(long, env, default_value_t = false, action = ArgAction::Set)]
    pub cache_tls: bool,
    /// The certificates.
    #[command(flatten)]
    pub tls: CacheTlsFiles,
    /// Topology of the cache.
    #[arg(long, env, value_enum, default_value_t = CacheMode::Single)]
    pub cache_mode: CacheMode,
    /// Name of the master at the Sentinels.
    #[arg(long, env, default_value = "mymaster")]
    pub cache_sentinel_master: String,
    /// Time to live of a cached link in seconds, varied by up to a tenth. An entry never outlives its link.
    #[arg(long, env, default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    pub cache_ttl_seconds: u32,
    /// Time limit of a cache operation in seconds, after which the request continues without the cache.
    #[arg(long = "cache-timeout-seconds", env = "CACHE_TIMEOUT_SECONDS", default_value = "0.1", value_parser = seconds)]
    pub cache_timeout: Duration,
}

impl CacheArgs {
    /// Returns the addresses; empty if the cache is off.
    pub fn urls(&self) -> Vec<String> {
        let urls = self.cache_url.iter().flat_map(|urls| urls.split(','));
        let urls = urls.map(str::trim).filter(|url| !url.is_empty());
        let urls: Vec<String> = urls.map(|url| self.with_scheme(url)).collect();
        let host = self.cache_host.as_deref().map(str::trim);
        match host.filter(|host| urls.is_empty() && !host.is_empty()) {
            Some(host) => {
                let url = url_of("redis", host, self.cache_port.unwrap_or(PORT));
                vec![self.with_scheme(&url)]
            }
            None => urls,
        }
    }

    fn with_scheme(&self, url: &str) -> String {
        match url.strip_prefix("redis://") {
            Some(rest) if self.tls_settings().is_on() => format!("rediss://{rest}"),
            _ => url.to_owned(),
        }
    }

    /// Returns the settings of TLS.
    pub fn tls_settings(&self) -> TlsSettings<'_> {
        self.tls.settings(self.cache_tls)
    }

    /// Returns the time to live of a cached link.
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
        assert_eq!(
            urls(&["--cache-url", "redis://a,rediss://b", "--cache-tls=true"]),
            ["rediss://a", "rediss://b"]
        );
        assert_eq!(
            urls(&["--cache-host", "a", "--cache-tls-ca-file", "/ca.crt"]),
            ["rediss://a:6379"]
        );
    }
}
