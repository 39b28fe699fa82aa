//! Many links, of which the cache holds a tenth, and which are followed by Zipf's law.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    app::{self, Environment},
    contender::{Contender, dropped_lines},
    links::{Popularity, fill},
    load,
    memory::mebibytes,
    nginx,
    report::Report,
    requests::any_link,
    rounds,
    sample::Row,
    server::{self, Server},
    settings::Settings,
    table,
};

/// The time limit of the whole run.
pub const LIMIT: Duration = Duration::from_secs(45 * 60);

/// The memory of a link in the cache in bytes: its code and its destination, with what the server adds.
const BYTES: u64 = 220;
/// One link of so many is in the cache.
const PART: u64 = 10;
/// The number of links in nginx's map. It would take very long to start with millions.
const LINKS_OF_NGINX: usize = 100_000;
/// The number of steps in which the cache is filled, each of which is reported.
const STEPS: usize = 10;

const MAP: &str = "nginx, map of 100,000 links";
const CACHED: &str = "app, cache with a tenth of the links";
const DATABASE: &str = "app, from the database";
const ROWS: [&str; 3] = [MAP, CACHED, DATABASE];

const LOOKUPS: [&str; 2] = [
    r#"cache_requests_total{result="hit"}"#,
    r#"cache_requests_total{result="miss"}"#,
];

/// Measures the contenders.
///
/// # Errors
/// Fails if a server does not start or a response is wrong.
pub async fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let links = settings.links();
    app::migrate(&settings.app).await?;
    fill(links).await?;
    let memory = links as u64 / PART * BYTES;
    let cache = server::cache(memory.max(BYTES * 1024)).await?;
    let contenders = contenders(settings, &cache).await?;
    let cached = &contenders[1];
    fill_cache(settings, cached).await?;
    let mut rows: Vec<Row> = contenders.iter().map(Contender::row).collect();
    let before = lookups(cached).await?;
    let (connections, requests) = (settings.connections, settings.requests);
    let time = Duration::from_secs(settings.seconds);
    rounds::take(settings.rounds, time, &mut rows, async |place| {
        contenders[place].sample(connections, requests).await
    })
    .await?;
    let [hits, misses] = lookups(cached).await?;
    let (hits, all) = (hits - before[0], hits + misses - before[0] - before[1]);
    report.title(&format!("{links} links, {connections} connections"));
    report.text(&table::of(&rows, &ROWS));
    report.text(&format!(
        "The cache has {} and {} keys, among them those of the rate limits. It had {:.1} % of the links that were followed.",
        mebibytes(memory),
        keys(cache.address).await?,
        100.0 * hits as f64 / all.max(1) as f64
    ));
    report.text(&dropped_lines(&contenders, &rows).await?);
    for contender in &contenders {
        if let Some(memory) = contender.memory()? {
            let peak = mebibytes(memory.peak);
            report.text(&format!(
                "Highest memory of \"{}\": {peak}.",
                contender.name
            ));
        }
    }
    Ok(())
}

async fn contenders(settings: &Settings, cache: &Server) -> Result<[Contender; 3]> {
    let cached = Environment::default().store("CACHE_URL", format!("redis://{}", cache.address));
    let start = async |name, environment: Environment| {
        eprintln!("starting: {name}");
        let server = environment.start(&settings.app).await?;
        let script = any_link(settings.popularity());
        anyhow::Ok(Contender {
            yardstick: MAP,
            ..Contender::app(name, environment, server, script)
        })
    };
    let links = LINKS_OF_NGINX.min(settings.links());
    let map = nginx::map(links).await?;
    let script = any_link(Popularity::even(links));
    Ok([
        Contender::other(MAP, "each followed as often as every other", map, script),
        start(CACHED, cached).await?,
        start(DATABASE, Environment::default()).await?,
    ])
}

/// Follows links until the cache is full of those that are followed most.
async fn fill_cache(settings: &Settings, cached: &Contender) -> Result<()> {
    let requests = settings.links() / 2 / STEPS;
    for step in 1..=STEPS {
        let script = Arc::clone(&cached.script);
        load::run(cached.address(), settings.connections, requests, &script).await?;
        eprintln!("the cache is being filled: {step} of {STEPS}");
    }
    Ok(())
}

async fn lookups(cached: &Contender) -> Result<[u64; 2]> {
    let [hits, misses] = LOOKUPS;
    Ok([cached.metric(hits).await?, cached.metric(misses).await?])
}

/// Returns the number of keys of the cache.
async fn keys(cache: SocketAddr) -> Result<u64> {
    let mut stream = TcpStream::connect(cache).await?;
    stream.write_all(b"DBSIZE\r\n").await?;
    let mut answer = [0; 64];
    let read = stream.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..read]);
    let keys = answer.strip_prefix(':').map(str::trim);
    keys.and_then(|keys| keys.parse().ok())
        .with_context(|| format!("the cache does not tell the number of its keys: {answer}"))
}
