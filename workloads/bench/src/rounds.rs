//! Rounds: every contender in turn, for the requested number of rounds or until the time is up.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::sample::{Row, Sample};

/// Runs the rounds; `turn` gets the index of its contender in `rows`. There is always one round, and a further one
/// only if it is likely to end in time.
///
/// # Errors
/// Returns the errors of a turn.
pub async fn take(
    rounds: usize,
    time: Duration,
    rows: &mut [Row],
    mut turn: impl AsyncFnMut(usize) -> Result<Sample>,
) -> Result<()> {
    let begin = Instant::now();
    for round in 1..=rounds {
        let start = Instant::now();
        for (place, row) in rows.iter_mut().enumerate() {
            let sample = turn(place).await;
            let sample = sample.with_context(|| format!("{}, round {round}", row.name))?;
            eprintln!("round {round} of {rounds}, {}: {sample}", row.name);
            row.samples.push(sample);
        }
        if round < rounds && begin.elapsed() + start.elapsed() > time {
            eprintln!("the time limit ends the rounds after {round} of {rounds}");
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::testing::row;

    async fn rounds_within(time: Duration) -> usize {
        let mut rows = [row("one", "one", &[]), row("other", "one", &[])];
        let turn = async |_| {
            let nothing = async { Ok(()) };
            Sample::take(1, || Ok(vec![Duration::ZERO]), nothing, async {}).await
        };
        take(3, time, &mut rows, turn).await.unwrap();
        assert_eq!(rows[0].samples.len(), rows[1].samples.len());
        rows[0].samples.len()
    }

    #[tokio::test]
    async fn there_is_one_round_in_any_case_and_more_while_there_is_time() {
        assert_eq!(rounds_within(Duration::ZERO).await, 1);
        assert_eq!(rounds_within(Duration::from_secs(3600)).await, 3);
    }
}
