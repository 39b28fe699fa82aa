//! The rounds of redirects, and what has to be known of their results.

use anyhow::{Result, ensure};

use crate::{
    contender::{Contender, dropped_lines, verdict},
    lineup::{Lineup, TRACED},
    rounds,
    sample::Row,
    settings::Settings,
};

const MISSES: &str = r#"cache_requests_total{result="miss"}"#;
const DROPPED_SPANS: &str = r#"otel_dropped_total{signal="traces"}"#;

/// Measures every contender; also returns notes on the results.
///
/// # Errors
/// Fails if a response is wrong.
pub async fn measure(settings: &Settings, lineup: &Lineup) -> Result<(Vec<Row>, Vec<String>)> {
    let contenders = &lineup.contenders;
    let before = misses(contenders).await?;
    let mut rows: Vec<Row> = contenders.iter().map(Contender::row).collect();
    let (rounds, time) = (settings.rounds, settings.time_of_redirects());
    let (connections, requests) = (settings.connections, settings.requests);
    rounds::take(rounds, time, &mut rows, async |place| {
        contenders[place].sample(connections, requests).await
    })
    .await?;
    let missed = misses(contenders).await? - before;
    let notes = vec![
        format!("Redirects that missed the cache: {missed}."),
        dropped_lines(contenders, &rows).await?,
        spans(lineup).await?,
    ];
    Ok((rows, notes))
}

async fn misses(contenders: &[Contender]) -> Result<u64> {
    let mut misses = 0;
    for contender in contenders {
        misses += contender.metric(MISSES).await?;
    }
    Ok(misses)
}

/// Describes the exported spans.
async fn spans(lineup: &Lineup) -> Result<String> {
    let taken = lineup.collector.spans_taken();
    let mut dropped = 0;
    for contender in &lineup.contenders {
        dropped += contender.metric(DROPPED_SPANS).await?;
    }
    ensure!(taken > 0, "\"{TRACED}\" has exported no span");
    let verdict = verdict(dropped, taken + dropped);
    Ok(format!(
        "Spans accepted by the collector: {taken}; spans dropped: {dropped}{verdict}."
    ))
}
