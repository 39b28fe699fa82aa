//! The mandate: the deadline until which this process may change the cluster, by its own monotonic clock.
//!
//! Each renewal of the lease extends it, and the fence in front of the client checks it before every write. Only
//! writes to the lease itself bypass the fence.

use std::{pin::pin, task::Poll};

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// The deadline until which this process may change the cluster. Clones share one deadline. A new mandate has already
/// expired.
#[derive(Clone, Debug)]
pub struct Mandate(watch::Sender<Option<Instant>>);

/// An error of a write that was refused or cut short: another replica may be the leader by now.
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
    /// Allows writes until the given moment.
    pub fn extend(&self, until: Instant) {
        self.0.send_replace(Some(until));
    }

    /// Ends the mandate at once: refuses new writes and cuts short writes in flight.
    pub fn end(&self) {
        self.0.send_replace(None);
    }

    /// Returns the moment at which the mandate expires.
    ///
    /// # Errors
    /// The mandate has expired.
    pub fn until(&self) -> Result<Instant, NotLeading> {
        let until = *self.0.borrow();
        until
            .filter(|until| Instant::now() < *until)
            .ok_or(NotLeading)
    }

    /// Runs a future for as long as the mandate holds, extensions included.
    ///
    /// # Errors
    /// The mandate expired first. The future is dropped and is not polled after that moment.
    pub async fn guard<F: Future>(&self, future: F) -> Result<F::Output, NotLeading> {
        let mut future = pin!(future);
        let mut changes = self.0.subscribe();
        loop {
            let until = self.until()?;
            changes.mark_unchanged();
            // The timers of a suspended process fire late after it resumes, so the clock is read before each poll.
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
