//! Waiting that counts only the time in which this process could run.
//!
//! A container that has used up its share of the processor is stopped for tens of milliseconds, a machine can be
//! suspended, and on a busy one every process has to wait for its turn. Afterwards every time limit of the process seems
//! to have passed, although nothing was late, and a server on the same machine had to wait as well.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The interval at which a waiting task looks at the clock.
const TICK: Duration = Duration::from_millis(10);
/// The lateness of a tick from which on the process counts as stalled.
const STALL: Duration = Duration::from_millis(50);

/// Completes after this time, in which a tick that was late counts like any other. The first stall of the process gives
/// the same time again, because a server may have stood still as well. A later one counts as a tick: on a processor that
/// is always busy every tick is a stall, and the others still get so many turns to answer.
pub async fn awake_for(time: Duration) {
    let mut left = time;
    let mut stalled = false;
    while !left.is_zero() {
        let start = Instant::now();
        let tick = left.min(TICK);
        sleep(tick).await;
        if !stalled && start.elapsed() > tick + STALL {
            stalled = true;
            left = time;
        } else {
            left -= tick;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        task::{JoinHandle, yield_now},
        time::advance,
    };

    use super::*;

    const TIME: Duration = Duration::from_millis(200);
    /// The resolution of the runtime's timers, for each look at the clock.
    const ROUNDED: Duration = Duration::from_millis(30);

    async fn begun() -> JoinHandle<()> {
        let wait = tokio::spawn(awake_for(TIME));
        yield_now().await;
        wait
    }

    /// Waits for the end; returns the time that it took from now on.
    async fn rest(wait: JoinHandle<()>) -> Duration {
        let start = Instant::now();
        wait.await.unwrap();
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_runs_waits_for_the_time() {
        let rest = rest(begun().await).await;
        assert!((TIME..TIME + ROUNDED).contains(&rest), "{rest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_busy_machine_the_wait_takes_longer() {
        let wait = begun().await;
        for _ in 0..5 {
            advance(TICK + STALL / 2).await;
            yield_now().await;
        }
        let rest = rest(wait).await;
        assert!((TIME - TICK * 5..TIME).contains(&rest), "{rest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_gives_the_same_time_again() {
        let wait = begun().await;
        advance(TIME * 3).await;
        let rest = rest(wait).await;
        assert!((TIME - ROUNDED..TIME + ROUNDED).contains(&rest), "{rest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn where_every_tick_is_a_stall_the_number_of_ticks_stays() {
        let mut wait = begun().await;
        let ticks = TIME.div_duration_f64(TICK).ceil() as usize;
        for late in 0..=ticks {
            assert!(!wait.is_finished(), "after {late} stalls");
            advance(TICK + STALL * 2).await;
            yield_now().await;
        }
        (&mut wait).await.unwrap();
    }
}
