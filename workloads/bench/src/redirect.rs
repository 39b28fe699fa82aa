//! The rounds of redirects, and what has to be known of their results.

use anyhow::{Result, ensure};

use crate::{
    contender::Contender,
    lineup::{Lineup, TRACED},
    losses, rounds,
    sample::Row,
    settings::Settings,
};

/// Measures every contender; also returns notes on the results.
///
/// # Errors
/// Fails if a response is wrong, or if no span was exported.
pub async fn measure(settings: &Settings, lineup: &Lineup) -> Result<(Vec<Row>, Vec<String>)> {
    let contenders = &lineup.contenders;
    let mut rows: Vec<Row> = contenders.iter().map(Contender::row).collect();
    let (rounds, time) = (settings.rounds, settings.time_of_redirects());
    let (connections, requests) = (settings.connections, settings.requests);
    rounds::take(rounds, time, &mut rows, async |place| {
        contenders[place].sample(connections, requests).await
    })
    .await?;
    let taken = lineup.collector.spans_taken();
    ensure!(taken > 0, "\"{TRACED}\" has exported no span");
    let spans = format!("Spans that the collector accepted: {taken}.");
    let notes = vec![spans, losses::note(&rows)];
    Ok((rows, notes))
}
