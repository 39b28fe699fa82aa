//! Redirects: nginx, the app with all links in its cache, with and without tracing, and the app without a cache.

use std::{net::SocketAddr, slice, sync::Arc};

use anyhow::{Result, ensure};
use shortener_testing::otlp::Sink;

use crate::{
    Settings,
    links::{code, fill, target},
    load::{self, Exchange, Script},
    nginx, rounds,
    server::{self, Server},
    table::{Row, Sample},
};

/// The yardstick.
pub const YARDSTICK: &str = "nginx, map";
/// The app in its usual configuration, with a cache.
pub const CACHED: &str = "app, from the cache";
/// The aim of the app, relative to the yardstick.
pub const AIM: f64 = 0.65;
/// The app with all links in its own memory as well.
pub const NEAR: &str = "app, from its own memory";
/// The memory for these copies in bytes: 100,000 links of 200 bytes fit.
const NEAR_BYTES: &str = "67108864";
/// The app with a cache, and with every trace exported to a collector on this machine.
pub const TRACED: &str = "app, from the cache, traced";
/// The aim of the app with tracing, relative to the yardstick.
pub const AIM_TRACED: f64 = 0.45;

const MISSES: &str = r#"cache_requests_total{result="miss"}"#;
const DROPPED_SPANS: &str = r#"otel_dropped_total{signal="traces"}"#;

/// Measures every contender; also returns notes on the results.
///
/// # Errors
/// Fails if a server does not start or a response is wrong.
pub async fn measure(settings: &Settings) -> Result<(Vec<Row>, Vec<String>)> {
    server::migrate(settings).await?;
    fill(settings.links).await?;
    let constant = nginx::constant().await?;
    let map = nginx::map(settings.links).await?;
    let cache = server::cache().await?;
    let (sink, endpoint) = Sink::start().await;
    let cache_url = ("CACHE_URL", format!("redis://{}", cache.address));
    let cached = server::app(settings, slice::from_ref(&cache_url)).await?;
    let near_bytes = ("CACHE_NEAR_BYTES", NEAR_BYTES.to_owned());
    let near = server::app(settings, &[cache_url.clone(), near_bytes]).await?;
    let export = ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    let traced = server::app(settings, &[cache_url, export]).await?;
    let plain = server::app(settings, &[]).await?;
    let links = settings.links;
    for app in [&cached, &near, &traced] {
        server::wait_until_ok(async || {
            let up = load::metric(app.address, "cache_up").await?;
            ensure!(up == 1, "the app is not connected to its cache");
            Ok(())
        })
        .await?;
    }
    eprintln!("filling the cache with {links} links");
    follow(settings, cached.address, links, every_link(links)).await?;
    let filled = load::metric(cached.address, MISSES).await?;
    follow(settings, near.address, links, every_link(links)).await?;

    let contenders: [(&str, &Server, Arc<Script>); 6] = [
        ("nginx, return 302", &constant.server, one_link(links)),
        (YARDSTICK, &map.server, any_link(links)),
        (CACHED, &cached, any_link(links)),
        (NEAR, &near, any_link(links)),
        (TRACED, &traced, any_link(links)),
        ("app, from the database", &plain, any_link(links)),
    ];
    let mut rows: Vec<Row> = contenders.iter().map(|(name, ..)| Row::new(name)).collect();
    let (rounds, time) = (settings.rounds, settings.time_of_redirects());
    rounds::take(rounds, time, &mut rows, async |place| {
        let (_, server, script) = &contenders[place];
        let requests = settings.requests;
        let work = follow(settings, server.address, requests, Arc::clone(script));
        Sample::take(requests, || server.cpu(), work).await
    })
    .await?;
    let missed = load::metric(cached.address, MISSES).await? - filled
        + load::metric(near.address, MISSES).await?
        + load::metric(traced.address, MISSES).await?;
    let notes = vec![
        format!("Redirects that missed the cache: {missed}."),
        spans(&sink, traced.address).await?,
    ];
    Ok((rows, notes))
}

/// Describes the exported spans. If more than one percent is dropped, the result with tracing is not valid.
async fn spans(sink: &Sink, traced: SocketAddr) -> Result<String> {
    let dropped = load::metric(traced, DROPPED_SPANS).await?;
    let taken = sink.spans_taken();
    ensure!(taken > 0, "the app with tracing has exported no span");
    let verdict = if 100 * dropped > taken + dropped {
        format!(", too many: the row \"{TRACED}\" is not valid")
    } else {
        String::new()
    };
    Ok(format!(
        "Spans accepted by the collector: {taken}; spans dropped: {dropped}{verdict}."
    ))
}

async fn follow(
    settings: &Settings,
    address: SocketAddr,
    requests: usize,
    script: Arc<Script>,
) -> Result<()> {
    load::run(address, settings.connections, requests, script).await
}

fn exchange(asked: usize, expected: usize) -> Exchange {
    let request = format!("GET /{} HTTP/1.1\r\nHost: bench.test\r\n\r\n", code(asked));
    Exchange {
        request: request.into_bytes(),
        status: "HTTP/1.1 302 ",
        line: format!("location: {}", target(expected)),
    }
}

fn every_link(links: usize) -> Arc<Script> {
    Arc::new(move |number| exchange(number % links, number % links))
}

fn any_link(links: usize) -> Arc<Script> {
    Arc::new(move |_| {
        let number = fastrand::usize(..links);
        exchange(number, number)
    })
}

fn one_link(links: usize) -> Arc<Script> {
    Arc::new(move |_| exchange(fastrand::usize(..links), 0))
}
