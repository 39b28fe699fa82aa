//! The addresses of the cache and the ways to connect: one server, the master that Sentinels report, or a cluster.

use std::time::Duration;

use anyhow::{Context, bail};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, RedisResult, TlsCertificates, TlsMode,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cluster::{ClusterClient, ClusterClientBuilder},
    io::tcp::TcpSettings,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use shortener_common::{
    config::given, telemetry::call::Server, time_limits::CACHE_SENDING, tls::ClientTls,
};

use super::channel::Channel;
use crate::config::{CacheArgs, CacheMode};

/// One retry after a node reported that a key has moved; a request has no time for more.
const CLUSTER_RETRIES: u32 = 1;
/// The maximum number of commands waiting to be sent. It is far above the usual number, so that no command waits
/// for a free slot. A command stays here although its request no longer waits for it.
const QUEUE: usize = 1024;

/// The servers of the cache, and the settings of connections.
pub struct Source {
    servers: Servers,
    /// The server attributes of spans. Of several addresses, only the first is used.
    pub(super) server: Server,
    /// The timeout of each connection step, and of a command.
    pub(super) deadline: Duration,
}

enum Servers {
    Single(Box<Client>),
    /// The master that Sentinels report.
    Sentinel(Box<SentinelClient>),
    Cluster(Box<ClusterClient>),
}

impl Source {
    /// Returns the source for these settings, or `None` without an address. It does not connect yet.
    ///
    /// # Errors
    /// Fails if an address is malformed, or if a certificate cannot be read. The message does not repeat the address,
    /// because it may contain a password.
    pub fn new(args: &CacheArgs) -> anyhow::Result<Option<Self>> {
        let urls = args.urls();
        let infos = urls.iter().map(|url| connection_info(url));
        let infos = infos.collect::<anyhow::Result<Vec<_>>>()?;
        let Some(first) = infos.first().cloned() else {
            return Ok(None);
        };
        let server = described(&first);
        let login = login(first.redis_settings().clone(), args);
        let deadline = args.cache_timeout;
        let tls = args.tls_settings().read()?.map(certificates);
        let servers = match args.cache_mode {
            CacheMode::Single if infos.len() > 1 => {
                bail!(
                    "CACHE_URL has several addresses, but CACHE_MODE is single: set one address, or another CACHE_MODE"
                )
            }
            CacheMode::Single => {
                let info = first.set_redis_settings(login);
                Servers::Single(Box::new(match tls {
                    Some(tls) => Client::build_with_tls(info, tls)?,
                    None => Client::open(info)?,
                }))
            }
            CacheMode::Sentinel => {
                let master = &args.cache_sentinel_master;
                Servers::Sentinel(Box::new(sentinels(&infos, master, &login, tls)?))
            }
            CacheMode::Cluster => {
                Servers::Cluster(Box::new(cluster(infos, &login, deadline, tls)?))
            }
        };
        Ok(Some(Self {
            servers,
            server,
            deadline,
        }))
    }

    /// Connects. Each step has a timeout, but the whole has none.
    ///
    /// # Errors
    /// Fails if the cache is unreachable or rejects the login.
    pub async fn connect(&mut self) -> RedisResult<Channel> {
        let client = match &mut self.servers {
            Servers::Single(client) => Client::clone(client),
            Servers::Sentinel(sentinels) => sentinels.async_get_client().await?,
            Servers::Cluster(client) => {
                return Ok(Channel::Cluster(client.get_async_connection().await?));
            }
        };
        let settings = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(self.deadline))
            // A command has its time limit together with the connection that it may wait for.
            .set_response_timeout(None)
            // The next command tries again.
            .set_number_of_retries(0)
            .set_pipeline_buffer_size(QUEUE);
        let manager = ConnectionManager::new_with_config(client, settings).await?;
        Ok(Channel::Server(manager))
    }
}

fn described(first: &ConnectionInfo) -> Server {
    let (host, port) = match first.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            (host.as_str(), *port)
        }
        _ => ("", 0),
    };
    Server::database("redis", host, port)
}

fn connection_info(url: &str) -> anyhow::Result<ConnectionInfo> {
    let info = url
        .into_connection_info()
        .context("CACHE_URL is invalid: it must be redis://host:port or rediss://host:port")?;
    Ok(info.set_tcp_settings(tcp()))
}

/// Disables Nagle's algorithm: requests share the connection, and no command may wait for the answer to another. A command
/// that the network holds back for long is never carried out, because others may have followed it over another connection.
fn tcp() -> TcpSettings {
    TcpSettings::default()
        .set_nodelay(true)
        .set_user_timeout(CACHE_SENDING)
}

/// Returns the login of the URL, overridden by the separate settings.
fn login(mut settings: RedisConnectionInfo, args: &CacheArgs) -> RedisConnectionInfo {
    if let Some(username) = given(&args.cache_username) {
        settings = settings.set_username(username);
    }
    if let Some(password) = given(&args.cache_password) {
        settings = settings.set_password(password);
    }
    settings
}

fn certificates(tls: ClientTls) -> TlsCertificates {
    TlsCertificates {
        client_tls: tls.identity.map(|identity| ClientTlsConfig {
            client_cert: identity.certificate.into_bytes(),
            client_key: identity.key.into_bytes(),
        }),
        root_cert: tls.authorities.map(String::into_bytes),
    }
}

/// Returns a client of the Sentinels, which have the login of the first, and of the master behind them, which has TLS if
/// the first has it.
fn sentinels(
    infos: &[ConnectionInfo],
    master: &str,
    login: &RedisConnectionInfo,
    tls: Option<TlsCertificates>,
) -> RedisResult<SentinelClient> {
    let addresses = infos.iter().map(|info| info.addr().clone());
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
        .set_client_to_sentinel_tcp_settings(tcp())
        .set_client_to_redis_tcp_settings(tcp())
        .set_client_to_redis_protocol(login.protocol())
        .set_client_to_redis_db(login.db());
    let first = infos.first();
    if let Some(ConnectionAddr::TcpTls { insecure, .. }) = first.map(ConnectionInfo::addr) {
        let verifies = tls.is_some() || !insecure;
        let mode = if verifies {
            TlsMode::Secure
        } else {
            TlsMode::Insecure
        };
        builder = builder.set_client_to_redis_tls_mode(mode);
    }
    if let Some(tls) = tls {
        builder = builder
            .set_client_to_sentinel_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_certificates(tls.clone())
            .set_client_to_redis_certificates(tls);
    }
    if let Some(username) = login.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = login.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    let first = first.map(ConnectionInfo::redis_settings);
    if let Some(username) = first.and_then(RedisConnectionInfo::username) {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = first.and_then(RedisConnectionInfo::password) {
        builder = builder.set_client_to_sentinel_password(password);
    }
    builder.build()
}

fn cluster(
    infos: Vec<ConnectionInfo>,
    login: &RedisConnectionInfo,
    deadline: Duration,
    tls: Option<TlsCertificates>,
) -> RedisResult<ClusterClient> {
    let infos = infos
        .into_iter()
        .map(|info| info.set_redis_settings(login.clone()));
    let mut builder = ClusterClientBuilder::new(infos);
    if let Some(tls) = tls {
        builder = builder.certs(tls);
    }
    builder
        .tcp_settings(tcp())
        .connection_timeout(deadline)
        .response_timeout(deadline)
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(1)
        .build()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CacheCli {
        #[command(flatten)]
        cache: CacheArgs,
    }

    fn source(arguments: &[&str]) -> anyhow::Result<Option<Source>> {
        let arguments = ["app"].iter().chain(arguments);
        Source::new(&CacheCli::try_parse_from(arguments).unwrap().cache)
    }

    fn single(arguments: &[&str]) -> ConnectionInfo {
        match source(arguments).unwrap() {
            Some(Source {
                servers: Servers::Single(client),
                ..
            }) => client.get_connection_info().clone(),
            _ => panic!("not a single server"),
        }
    }

    #[test]
    fn without_an_address_there_is_no_cache() {
        assert!(source(&[]).unwrap().is_none());
        assert!(source(&["--cache-url", ""]).unwrap().is_none());
        assert!(source(&["--cache-url", " , "]).unwrap().is_none());
    }

    #[test]
    fn credentials_of_their_own_take_precedence_over_those_in_the_url() {
        let url = ["--cache-url", "redis://alice:a%2Fb@cache:6380/3"];
        let settings = single(&url).redis_settings().clone();
        assert_eq!(
            (settings.username(), settings.password(), settings.db()),
            (Some("alice"), Some("a/b"), 3)
        );
        let own = [
            &url[..],
            &["--cache-username", "bob", "--cache-password", "s%e/c"],
        ]
        .concat();
        let settings = single(&own).redis_settings().clone();
        assert_eq!(
            (settings.username(), settings.password(), settings.db()),
            (Some("bob"), Some("s%e/c"), 3)
        );
        let empty = [&url[..], &["--cache-username", "", "--cache-password", ""]].concat();
        assert_eq!(single(&empty).redis_settings().username(), Some("alice"));
    }

    #[test]
    fn a_command_never_waits_for_the_answer_to_another() {
        let info = single(&["--cache-url", "redis://cache"]);
        assert!(info.tcp_settings().nodelay());
        assert_eq!(*info.addr(), ConnectionAddr::Tcp("cache".to_owned(), 6379));
    }

    #[test]
    fn a_command_that_the_network_holds_back_for_long_is_never_carried_out() {
        let info = single(&["--cache-url", "redis://cache"]);
        assert_eq!(info.tcp_settings().user_timeout(), Some(CACHE_SENDING));
    }

    #[test]
    fn several_addresses_need_a_mode_that_takes_them() {
        let urls = ["--cache-url", "redis://a:1, redis://b:2"];
        let message = source(&urls).err().unwrap().to_string();
        assert!(
            message.contains("CACHE_URL") && message.contains("CACHE_MODE"),
            "{message}"
        );
        for mode in ["sentinel", "cluster"] {
            assert!(
                source(&[&urls[..], &["--cache-mode", mode]].concat())
                    .unwrap()
                    .is_some()
            );
        }
    }

    #[test]
    fn every_mode_takes_certificates_and_an_address_without_tls_is_no_way_round() {
        for (urls, mode) in [
            ("redis://a", "single"),
            ("redis://a,rediss://b", "sentinel"),
            ("redis://a,rediss://b", "cluster"),
        ] {
            let arguments = [
                "--cache-tls=true",
                "--cache-url",
                urls,
                "--cache-mode",
                mode,
            ];
            assert!(source(&arguments).unwrap().is_some(), "{mode}");
        }
        let info = single(&["--cache-tls=true", "--cache-url", "redis://a:1"]);
        let ConnectionAddr::TcpTls {
            host,
            port,
            insecure,
            ..
        } = info.addr()
        else {
            panic!("no TLS");
        };
        assert_eq!((host.as_str(), *port, *insecure), ("a", 1, false));
        let message = source(&[
            "--cache-url",
            "redis://a",
            "--cache-tls-ca-file",
            "/missing",
        ]);
        let message = format!("{:#}", message.err().unwrap());
        assert!(message.contains("CACHE_TLS_CA_FILE"), "{message}");
    }

    #[test]
    fn a_malformed_address_is_refused_without_repeating_it() {
        for url in [
            "http://:secret@cache",
            "cache:6379/secret",
            "redis://:secret@",
        ] {
            let message = format!("{:#}", source(&["--cache-url", url]).err().unwrap());
            assert!(
                message.contains("CACHE_URL") && !message.contains("secret"),
                "{message}"
            );
        }
    }
}
