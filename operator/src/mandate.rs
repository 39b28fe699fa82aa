//! Until when this process may change the cluster, by its own monotonic clock.
//!
//! The leader election extends the mandate, the fence before the client reads it. Nothing else may write.

use std::{pin::pin, task::Poll};

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// Until when this process may change the cluster. Clones are one mandate; a new one has ended.
#[derive(Clone, Debug)]
pub struct Mandate(watch::Sender<Option<Instant>>);

/// A write was refused or cut short: another replica may be the leader by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this replica is not the leader, or could not renew its lease in time: it may not change the cluster"
)]
pub struct NotLeading;

impl Default for Mandate {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Mandate {
    /// Lets this process write until then.
    pub fn extend(&self, until: Instant) {
        self.0.send_replace(Some(until));
    }

    /// Refuses every write from now on, those under way included.
    pub fn end(&self) {
        self.0.send_replace(None);
    }

    /// The moment at which the mandate ends.
    ///
    /// # Errors
    /// It has ended.
    pub fn until(&self) -> Result<Instant, NotLeading> {
        let until = *self.0.borrow();
        until
            .filter(|until| Instant::now() < *until)
            .ok_or(NotLeading)
    }

    /// Drives a future for as long as the mandate holds, extensions included.
    ///
    /// # Errors
    /// The mandate ended first; the future is dropped without having been polled after that moment.
    pub async fn guard<F: Future>(&self, future: F) -> Result<F::Output, NotLeading> {
        let mut future = pin!(future);
        let mut changes = self.0.subscribe();
        loop {
            let until = self.until()?;
            changes.mark_unchanged();
            // A process that was stopped wakes with its timers late, so the clock is read before each step.
            let step = std::future::poll_fn(|context| match self.until() {
                Ok(_) => future.as_mut().poll(context).map(Ok),
                Err(ended) => Poll::Ready(Err(ended)),
            });
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                output = timeout_at(until, step) => if let Ok(output) = output { return output },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_mandate_ends_by_the_local_clock() {
        let mandate = Mandate::default();
        assert_eq!(mandate.until(), Err(NotLeading));
        let until = Instant::now() + 10 * SECOND;
        mandate.extend(until);
        tokio::time::advance(9 * SECOND).await;
        assert_eq!(mandate.until(), Ok(until));
        tokio::time::advance(SECOND).await;
        assert_eq!(mandate.until(), Err(NotLeading));
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_way_is_cut_short_when_the_mandate_runs_out() {
        let mandate = Mandate::default();
        mandate.extend(Instant::now() + SECOND);
        let started = Instant::now();
        assert_eq!(mandate.guard(pending::<()>()).await, Err(NotLeading));
        assert_eq!(started.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_way_goes_on_when_the_mandate_is_extended() {
        let mandate = Mandate::default();
        mandate.extend(Instant::now() + SECOND);
        let work = mandate.guard(tokio::time::sleep(3 * SECOND));
        let renewal = async {
            tokio::time::sleep(SECOND / 2).await;
            mandate.extend(Instant::now() + 5 * SECOND);
        };
        assert_eq!(tokio::join!(work, renewal).0, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn ending_the_mandate_stops_work_at_once() {
        let mandate = Mandate::default();
        mandate.extend(Instant::now() + 60 * SECOND);
        let started = Instant::now();
        let end = async {
            tokio::time::sleep(SECOND).await;
            mandate.end();
        };
        assert_eq!(
            tokio::join!(mandate.guard(pending::<()>()), end).0,
            Err(NotLeading)
        );
        assert_eq!(started.elapsed().as_secs(), 1);
    }
}
