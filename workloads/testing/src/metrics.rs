//! What a program exports: looked at, waited for, and held against what people are told of it.

use std::net::SocketAddr;

use crate::{broker::until, client::get};

/// The page with every metric, from which alerts and dashboards are held to what exists.
const PAGE: &str = include_str!("../../../docs/observability.md");

/// Metrics of an exposition in the classic text format that the page does not name.
#[must_use]
pub fn undocumented(exposition: &str) -> Vec<&str> {
    let metrics = exposition
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|rest| rest.split(' ').next());
    let named = |metric: &str| {
        ['`', '{']
            .iter()
            .any(|end| PAGE.contains(&format!("`{metric}{end}")))
    };
    metrics.filter(|metric| !named(metric)).collect()
}

/// What a program exports at its internal port.
pub async fn exposition(internal: SocketAddr) -> String {
    get(internal, "/metrics").await.text()
}

/// The value of a series, written with its labels, if any.
pub async fn value(internal: SocketAddr, series: &str) -> u64 {
    let text = exposition(internal).await;
    let of = |line: &str| Some(line.strip_prefix(series)?.strip_prefix(' ')?.to_owned());
    let value = text.lines().find_map(of);
    value
        .unwrap_or_else(|| panic!("{series} is missing in\n{text}"))
        .parse()
        .unwrap()
}

/// Waits for a line.
pub async fn wait_for(internal: SocketAddr, line: &str) {
    until(line, async || {
        let text = exposition(internal).await;
        let found = text.lines().any(|found| found == line);
        found.then_some(()).ok_or(text)
    })
    .await;
}

/// Waits until both spans and log records were dropped.
pub async fn wait_for_drops(internal: SocketAddr) {
    for signal in ["traces", "logs"] {
        let series = format!("otel_dropped_total{{signal=\"{signal}\"}}");
        until("drops to be counted", async || {
            let dropped = value(internal, &series).await;
            (dropped > 0).then_some(()).ok_or(signal.to_owned())
        })
        .await;
    }
}
