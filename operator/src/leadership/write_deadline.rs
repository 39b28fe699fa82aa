//! The write deadline: the moment until which this process may change the cluster, by its own monotonic clock.
//!
//! Each renewal of the lease extends it, and the fence in front of the client checks it before every write. Only
//! writes to the lease itself bypass the fence.

use std::{pin::pin, task::Poll};

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// The moment until which this process may change the cluster. Clones share one moment. For a new deadline, it has
/// already passed.
#[derive(Clone, Debug)]
pub struct WriteDeadline(watch::Sender<Option<Instant>>);

/// An error of a write that was refused or cut short: another replica may be the leader by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this replica is not the leader, or could not renew its lease in time: it may not change the cluster"
)]
pub struct NotLeading;

impl Default for WriteDeadline {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl WriteDeadline {
    /// Allows writes until the given moment.
    pub fn extend(&self, until: Instant) {
        self.0.send_replace(Some(until));
    }

    /// Moves the deadline into the past: refuses new writes and cuts short writes in flight.
    pub fn end(&self) {
        self.0.send_replace(None);
    }

    /// Returns the deadline.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn until(&self) -> Result<Instant, NotLeading> {
        let until = *self.0.borrow();
        until
            .filter(|until| Instant::now() < *until)
            .ok_or(NotLeading)
    }

    /// Runs a future until the deadline, extensions included.
    ///
    /// # Errors
    /// The deadline passed first. The future is dropped and is not polled after that moment.
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
    async fn a_write_deadline_passes_by_the_local_clock() {
        let write_deadline = WriteDeadline::default();
        assert_eq!(write_deadline.until(), Err(NotLeading));
        let until = Instant::now() + 10 * SECOND;
        write_deadline.extend(until);
        tokio::time::advance(9 * SECOND).await;
        assert_eq!(write_deadline.until(), Ok(until));
        tokio::time::advance(SECOND).await;
        assert_eq!(write_deadline.until(), Err(NotLeading));
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_way_is_cut_short_when_the_write_deadline_passes() {
        let write_deadline = WriteDeadline::default();
        write_deadline.extend(Instant::now() + SECOND);
        let started = Instant::now();
        assert_eq!(write_deadline.guard(pending::<()>()).await, Err(NotLeading));
        assert_eq!(started.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_way_goes_on_when_the_write_deadline_is_extended() {
        let write_deadline = WriteDeadline::default();
        write_deadline.extend(Instant::now() + SECOND);
        let work = write_deadline.guard(tokio::time::sleep(3 * SECOND));
        let renewal = async {
            tokio::time::sleep(SECOND / 2).await;
            write_deadline.extend(Instant::now() + 5 * SECOND);
        };
        assert_eq!(tokio::join!(work, renewal).0, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn ending_the_write_deadline_stops_work_at_once() {
        let write_deadline = WriteDeadline::default();
        write_deadline.extend(Instant::now() + 60 * SECOND);
        let started = Instant::now();
        let end = async {
            tokio::time::sleep(SECOND).await;
            write_deadline.end();
        };
        assert_eq!(
            tokio::join!(write_deadline.guard(pending::<()>()), end).0,
            Err(NotLeading)
        );
        assert_eq!(started.elapsed().as_secs(), 1);
    }
}
