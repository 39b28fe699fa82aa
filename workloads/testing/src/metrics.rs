//! Queries of a program's metrics, and their comparison with the documentation.

use std::net::SocketAddr;

use crate::{broker::until, client::get};

/// The documentation page that lists every metric.
const PAGE: &str = include_str!("../../../docs/observability.md");

/// Returns the metrics of an exposition in the classic text format that the page does not list.
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

/// Returns the exposition of a program's internal port.
pub async fn exposition(internal: SocketAddr) -> String {
    get(internal, "/metrics").await.text()
}

/// Returns the value of a series, written with its labels, if any.
pub async fn value(internal: SocketAddr, series: &str) -> u64 {
    let text = exposition(internal).await;
    let of = |line: &str| Some(line.strip_prefix(series)?.strip_prefix(' ')?.to_owned());
    let value = text.lines().find_map(of);
    value
        .unwrap_or_else(|| panic!("{series} is missing in\n{text}"))
        .parse()
        .unwrap()
}

/// Waits for a line of the exposition.
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
