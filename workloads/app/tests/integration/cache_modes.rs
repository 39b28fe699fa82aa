//! Passwords, certificates, clusters and Sentinels.

use std::path::PathBuf;

use futures::future::join_all;
use serde_json::json;
use shortener_app::{
    code::Code,
    config::CacheMode,
    store::{Link, Resolved},
};
use shortener_testing::{database::TestDatabase, servers};

use crate::{
    cache::{assert_redirects, cache_is_up, counts, metric},
    cache_server::{PATIENT, Redis, connected_to, free_port, until},
    client::{get, shorten},
    support::App,
};

const URL: &str = "https://example.com/a?b=c";

async fn follows_from_the_cache(app: &App) -> String {
    cache_is_up(app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    // After a miss, the denial is written while the request goes on.
    until(2, || async {
        get(app.public, "/nobody").await.problem(404, "not-found");
        counts(app).await.0
    })
    .await;
    code
}

#[tokio::test]
async fn a_password_is_needed_and_the_wrong_one_is_as_good_as_no_cache() {
    let database = TestDatabase::new().await;
    let cache = Redis::start_with(&["--requirepass", "s%e/c ret"]).await;
    let start = |username: Option<&str>, password: &str| {
        let (database, url) = (&database, cache.url());
        let (username, password) = (username.map(str::to_owned), password.to_owned());
        async move {
            App::start_with(database, |config| {
                config.cache.cache_url = Some(url);
                config.cache.cache_timeout = PATIENT;
                config.cache.cache_username = username;
                config.cache.cache_password = Some(password);
            })
            .await
        }
    };
    follows_from_the_cache(&start(None, "s%e/c ret").await).await;
    cache_is_up(&start(Some("default"), "s%e/c ret").await).await;
    let wrong = start(None, "another").await;
    let code = shorten(wrong.public, json!({"url": URL})).await;
    assert_redirects(&get(wrong.public, &format!("/{code}")).await, URL);
    assert_eq!(metric(&wrong, "cache_up").await, 0);
}

/// Returns the path of a certificate or a key.
pub fn file(name: &str) -> PathBuf {
    let [folder] = servers::CERTIFICATES
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    PathBuf::from(folder).join(name)
}

/// Starts a server with this certificate that demands one of its clients; returns it with its port for TLS.
pub async fn over_tls(certificate: &str) -> (Redis, String) {
    let [authority, certificate, key] =
        ["ca.crt", certificate, "server.key"].map(|name| file(name).display().to_string());
    let port = free_port().to_string();
    let cache = Redis::start_with(&[
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &authority,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "yes",
    ])
    .await;
    (cache, port)
}

#[tokio::test]
async fn a_cache_is_verified_and_knows_its_client() {
    // The library takes the crypto provider of the process, which a program chooses at its start.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let database = TestDatabase::new().await;
    let (_cache, valid) = over_tls("server.crt").await;
    let (_other, expired) = over_tls("expired.crt").await;
    let start = |address: String, authority: &str, with_identity: bool| {
        let authority = file(authority);
        let database = &database;
        async move {
            App::start_with(database, |config| {
                config.cache.cache_url = Some(format!("redis://{address}"));
                config.cache.cache_timeout = PATIENT;
                config.cache.tls.ca_file = Some(authority);
                if with_identity {
                    config.cache.tls.cert_file = Some(file("client.crt"));
                    config.cache.tls.key_file = Some(file("client.key"));
                }
            })
            .await
        }
    };
    let address = format!("localhost:{valid}");
    follows_from_the_cache(&start(address.clone(), "ca.crt", true).await).await;
    for (address, authority, with_identity) in [
        (address.clone(), "ca.crt", false),
        (address, "other-ca.crt", true),
        (format!("localhost:{expired}"), "ca.crt", true),
        (format!("127.0.0.1:{valid}"), "ca.crt", true),
    ] {
        let refused = start(address.clone(), authority, with_identity).await;
        let code = shorten(refused.public, json!({"url": URL})).await;
        assert_redirects(&get(refused.public, &format!("/{code}")).await, URL);
        assert_eq!(
            metric(&refused, "cache_up").await,
            0,
            "{address} {authority}"
        );
    }
}

/// Starts a cluster of two servers.
async fn cluster() -> (Redis, Redis) {
    let first = Redis::start_with(&["--cluster-enabled", "yes"]).await;
    let second = Redis::start_with(&["--cluster-enabled", "yes"]).await;
    first
        .ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"])
        .await;
    second
        .ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"])
        .await;
    let port = second.port.to_string();
    let bus = (u32::from(second.port) + 10_000).to_string();
    first
        .ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
        .await;
    for node in [&first, &second] {
        until(true, || async {
            node.ask::<String>(&["CLUSTER", "INFO"])
                .await
                .contains("cluster_state:ok")
        })
        .await;
    }
    (first, second)
}

#[tokio::test]
async fn many_codes_at_once_are_divided_among_the_nodes_and_each_has_its_answer() {
    let (first, second) = cluster().await;
    let urls = format!("{},{}", first.url(), second.url());
    let cache = connected_to(urls, CacheMode::Cluster, PATIENT).await;
    let links: Vec<_> = (0..100)
        .map(|number| Link {
            code: format!("code{number}"),
            url: format!("{URL}/{number}"),
            template: false,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            expires_at: None,
        })
        .collect();
    for link in links.iter().step_by(2) {
        cache.created(link, false).await;
    }
    let codes = links.iter().map(|link| Code::parse(&link.code).unwrap());
    let found = join_all(codes.map(|code| cache.look_up(code))).await;
    for (number, (link, known)) in links.iter().zip(found).enumerate() {
        let expected = (number % 2 == 0).then(|| Resolved::To(link.url.clone().into()));
        assert_eq!(known, expected, "{number}");
    }
    for node in [&first, &second] {
        assert!(node.ask::<u64>(&["DBSIZE"]).await > 0);
    }
}

#[tokio::test]
async fn a_cluster_serves_both_keys_of_a_code() {
    let database = TestDatabase::new().await;
    let (first, second) = cluster().await;
    let app = App::start_with(&database, |config| {
        config.cache.cache_url = Some(format!("{},{}", first.url(), second.url()));
        config.cache.cache_timeout = PATIENT;
        config.cache.cache_mode = CacheMode::Cluster;
        // The script of the rate limit runs on the cluster too, once a client has spent an eighth.
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 40;
    })
    .await;
    follows_from_the_cache(&app).await;
    let misses = counts(&app).await.1;
    // With this many codes, each of the two nodes has some.
    for _ in 0..20 {
        let code = shorten(app.public, json!({"url": URL})).await;
        assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    }
    assert_eq!(counts(&app).await, (22, misses));
    for node in [&first, &second] {
        assert!(node.ask::<u64>(&["DBSIZE"]).await > 0);
    }
    let buckets = first.ask::<Vec<String>>(&["KEYS", "limit:*"]).await.len()
        + second.ask::<Vec<String>>(&["KEYS", "limit:*"]).await.len();
    assert_eq!(buckets, 1, "the limit is counted on one of the nodes");
}

#[tokio::test]
async fn the_master_that_a_sentinel_names_is_used_and_its_successor_found() {
    let database = TestDatabase::new().await;
    let master = Redis::start().await;
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]).await;
    until(true, || async {
        replica
            .ask::<String>(&["INFO", "replication"])
            .await
            .contains("master_link_status:up")
    })
    .await;
    let sentinel = sentinel_of(master.port).await;
    let app = App::start_with(&database, |config| {
        // The first Sentinel does not exist.
        config.cache.cache_url = Some(format!(
            "redis://127.0.0.1:{},{}",
            free_port(),
            sentinel.url()
        ));
        config.cache.cache_timeout = PATIENT;
        config.cache.cache_mode = CacheMode::Sentinel;
        config.cache.cache_sentinel_master = "cache".to_owned();
    })
    .await;
    let code = follows_from_the_cache(&app).await;
    assert_eq!(master.link(&code).await.as_deref(), Some(URL));

    // Fails until the Sentinel has discovered the replica.
    until(true, || async {
        let failover = sentinel.try_ask::<()>(&["SENTINEL", "FAILOVER", "cache"]);
        failover.await.is_ok()
    })
    .await;
    until(true, || is_master(&replica)).await;
    master
        .ask::<()>(&["REPLICAOF", "127.0.0.1", &replica.port.to_string()])
        .await;
    // The old master now rejects writes, which makes the app ask for the new one.
    until(true, || async {
        let code = shorten(app.public, json!({"url": URL})).await;
        assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
        replica
            .ask::<bool>(&["EXISTS", &format!("link:{code}")])
            .await
    })
    .await;
}

/// Returns true if the server is a master. A Sentinel closes the connections to a server that it promotes,
/// including this one.
async fn is_master(server: &Redis) -> bool {
    let replication = server.try_ask::<String>(&["INFO", "replication"]).await;
    replication.is_ok_and(|text| text.contains("role:master"))
}

async fn sentinel_of(port: u16) -> Redis {
    let file = std::env::temp_dir().join(format!(
        "shortener-sentinel-{}-{port}.conf",
        std::process::id()
    ));
    let settings = format!(
        "sentinel monitor cache 127.0.0.1 {port} 1\nsentinel down-after-milliseconds cache 60000\nsentinel failover-timeout cache 2000\n"
    );
    std::fs::write(&file, settings).unwrap();
    let sentinel = Redis::start_with(&[file.to_str().unwrap(), "--sentinel"]).await;
    std::fs::remove_file(&file).unwrap();
    sentinel
}
