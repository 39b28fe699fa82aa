//! Many links, which are followed by Zipf's law, and of which caches hold a part.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    app::{self, Environment},
    contender::Contender,
    database::Database,
    links::{Popularity, fill},
    load, losses,
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
/// The number of links in nginx's map. It would take very long to start with millions.
const LINKS_OF_NGINX: usize = 100_000;
/// The number of steps in which the cache is filled, each of which is reported.
const STEPS: usize = 10;

const MAP: &str = "nginx, map of 100,000 links";
const DATABASE: &str = "app, from the database";
/// The caches: the name of the row, and of how many links one is in the cache.
const CACHES: [(&str, usize); 3] = [
    ("app, cache with a hundredth of the links", 100),
    ("app, cache with a thirtieth of the links", 30),
    ("app, cache with a tenth of the links", 10),
];
/// The number of requests that fill a cache, for each link that it has room for.
const FILLING: usize = 5;
/// The days with a click on every link.
const DAYS: i32 = 3;

const LOOKUPS: [&str; 2] = [
    r#"cache_requests_total{result="hit"}"#,
    r#"cache_requests_total{result="miss"}"#,
];

/// An app with a cache, and the memory of that cache in bytes.
struct Cached {
    app: Contender,
    cache: Arc<Server>,
    memory: u64,
}

/// Measures the contenders, and what the links cost the database.
///
/// # Errors
/// Fails if a server does not start or a response is wrong.
pub async fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let links = settings.links();
    app::migrate(&settings.app).await?;
    fill(links).await?;
    let mut caches = Vec::new();
    for (name, part) in CACHES {
        let cached = start_cached(settings, name, part).await?;
        fill_cache(settings, &cached.app, links / part * FILLING).await?;
        caches.push(cached);
    }
    let [map, database] = others(settings).await?;
    report.title(&format!(
        "{links} links, {} connections",
        settings.connections
    ));
    redirects(settings, &caches, [&map, &database], report).await?;
    // An app with a cache looks every few seconds for links that it has to remove from it, which reads pages, too.
    drop(caches);
    report.title(&format!("The database with {links} links"));
    of_the_database(settings, &database, report).await
}

/// Measures redirects, and how many of them each cache answered.
async fn redirects(
    settings: &Settings,
    caches: &[Cached],
    [map, database]: [&Contender; 2],
    report: &mut Report,
) -> Result<()> {
    let apps = caches.iter().map(|cached| &cached.app);
    let contenders: Vec<&Contender> = std::iter::once(map).chain(apps).chain([database]).collect();
    let mut rows: Vec<Row> = contenders.iter().map(|contender| contender.row()).collect();
    let mut before = Vec::new();
    for cached in caches {
        before.push(lookups(&cached.app).await?);
    }
    let (connections, requests) = (settings.connections, settings.requests);
    let time = Duration::from_secs(settings.seconds);
    rounds::take(settings.rounds, time, &mut rows, async |place| {
        contenders[place].sample(connections, requests).await
    })
    .await?;
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name).collect();
    report.text(&table::of(&rows, &names));
    let mut hits =
        String::from("| cache | memory | keys | links that it had |\n| --- | --- | --- | --- |\n");
    for (cached, before) in caches.iter().zip(before) {
        let [hit, missed] = lookups(&cached.app).await?;
        let (hit, all) = (hit - before[0], hit + missed - before[0] - before[1]);
        hits.push_str(&format!(
            "| {} | {} | {} | {:.1} % |\n",
            cached.app.name,
            mebibytes(cached.memory),
            keys(cached.cache.address).await?,
            100.0 * hit as f64 / all.max(1) as f64
        ));
    }
    report.text(&hits);
    report.text("The keys of a cache are links, and the counts of the rate limits.");
    report.text(&losses::note(&rows));
    for contender in contenders {
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

/// Measures what the links and their clicks cost the database.
async fn of_the_database(settings: &Settings, app: &Contender, report: &mut Report) -> Result<()> {
    let (links, connections) = (settings.links(), settings.connections);
    let mut database = Database::connect().await?;
    report.text(&database.room(links).await?);
    report.text(&database.pages_of_a_lookup(app, connections).await?);
    report.text(&database.log_of_a_new_link(app, connections).await?);
    report.text(&database.vacuum(links).await?);
    report.text(&database.room_of_clicks(links, DAYS).await?);
    Ok(())
}

/// Starts an app with a cache that has room for one link of so many.
async fn start_cached(settings: &Settings, name: &'static str, part: usize) -> Result<Cached> {
    let memory = (settings.links() / part) as u64 * BYTES;
    let memory = memory.max(BYTES * 1024);
    let cache = server::cache(memory).await?;
    let environment = environment().store("CACHE_URL", format!("redis://{}", cache.address));
    Ok(Cached {
        app: start_app(settings, name, environment).await?,
        cache,
        memory,
    })
}

/// Returns the environment of all apps. Clicks would write to the tables whose use of disk is measured.
fn environment() -> Environment {
    Environment::default().without_clicks()
}

async fn start_app(
    settings: &Settings,
    name: &'static str,
    environment: Environment,
) -> Result<Contender> {
    eprintln!("starting: {name}");
    let server = environment.start(&settings.app).await?;
    let script = any_link(settings.popularity());
    Ok(Contender {
        yardstick: MAP,
        has_small_cache: true,
        ..Contender::app(name, environment, server, script)
    })
}

/// Starts nginx and an app without a cache.
async fn others(settings: &Settings) -> Result<[Contender; 2]> {
    let links = LINKS_OF_NGINX.min(settings.links());
    let map = nginx::map(links).await?;
    let script = any_link(Popularity::even(links));
    Ok([
        Contender::other(MAP, "each followed as often as every other", map, script),
        start_app(settings, DATABASE, environment()).await?,
    ])
}

/// Follows links until the cache is full of those that are followed most.
async fn fill_cache(settings: &Settings, cached: &Contender, requests: usize) -> Result<()> {
    for step in 1..=STEPS {
        let script = Arc::clone(&cached.script);
        load::run(
            cached.address(),
            settings.connections,
            requests / STEPS,
            &script,
        )
        .await?;
        eprintln!("{}: it is being filled, {step} of {STEPS}", cached.name);
    }
    Ok(())
}

async fn lookups(cached: &Contender) -> Result<[u64; 2]> {
    let metrics = load::metrics(cached.address()).await?;
    let [hits, misses] = LOOKUPS;
    Ok([load::value(&metrics, hits)?, load::value(&metrics, misses)?])
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
