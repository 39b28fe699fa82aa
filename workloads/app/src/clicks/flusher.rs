//! The background task that writes the counts to the database, over a connection of its own.
//!
//! A batch whose outcome is unknown is sent again before any other one, under the same identity. While the database is
//! down, there is one such batch, and all other clicks stay in the counter.

use std::{pin::pin, sync::Arc, time::Duration};

use shortener_common::{database::StoreError, supervised::supervised, time_limits::CLICKS_END};
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    counter::{Batch, Counter, Counts},
    metrics::ClickMetrics,
};
use crate::store::clicks::ClickWriter;

/// The longest time between two writes. Replicas start at different times, and their intervals differ.
const INTERVAL: Duration = Duration::from_secs(5);
/// The factor of the interval.
const JITTER: std::ops::RangeInclusive<f64> = 0.6..=1.0;
/// The pause after a failure when the app ends.
const RETRY: Duration = Duration::from_millis(200);

/// Writes the counts of one replica.
pub(super) struct Flusher {
    counter: Arc<Counter>,
    writer: ClickWriter,
    metrics: ClickMetrics,
    /// The batch of which the database has not confirmed that it has it.
    pending: Option<Batch>,
    last_reason: String,
}

impl Flusher {
    pub(super) fn new(counter: Arc<Counter>, writer: ClickWriter, metrics: ClickMetrics) -> Self {
        Self {
            counter,
            writer,
            metrics,
            pending: None,
            last_reason: String::new(),
        }
    }

    /// Writes now and then until `stop` completes, and then the rest.
    async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let pause = sleep(INTERVAL.mul_f64(rand::random_range(JITTER)));
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.counter.crowded() => {}
                () = pause => {}
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                _ = self.flush() => {}
            }
        }
        if timeout(CLICKS_END, self.finish()).await.is_err() {
            self.give_up();
        }
    }

    /// Writes everything that was counted when it began.
    async fn flush(&mut self) -> Result<(), StoreError> {
        let mut parts = Counter::shards();
        if self.pending.is_none() {
            self.pending = self.counter.take(&mut parts);
        }
        while let Some(batch) = &self.pending {
            if let Err(error) = self.writer.write(batch).await {
                self.warn(&error);
                return Err(error);
            }
            self.last_reason.clear();
            let Counts { people, bots } = batch.total();
            self.metrics.people.inc_by(people);
            self.metrics.bots.inc_by(bots);
            let next = self.counter.take(&mut parts);
            if let Some(stored) = std::mem::replace(&mut self.pending, next) {
                self.counter.release(stored);
            }
        }
        Ok(())
    }

    async fn finish(&mut self) {
        while self.flush().await.is_err() {
            sleep(RETRY).await;
        }
    }

    /// Counts what is left as lost.
    fn give_up(&mut self) {
        let mut parts = Counter::shards();
        let mut lost = Counts::default();
        while let Some(batch) = self
            .pending
            .take()
            .or_else(|| self.counter.take(&mut parts))
        {
            lost += batch.total();
        }
        let clicks = lost.people.saturating_add(lost.bots);
        self.metrics.lost_at_end.inc_by(clicks);
        tracing::warn!(event = "clicks_lost", clicks, "clicks_lost");
    }

    fn warn(&mut self, error: &StoreError) {
        let reason = error.to_string();
        if reason != self.last_reason {
            tracing::warn!(
                event = "clicks_not_stored",
                error.message = reason,
                "clicks_not_stored"
            );
            self.last_reason = reason;
        }
    }
}

/// The task, which ends with its handle.
pub struct FlushTask {
    stop: oneshot::Sender<()>,
    task: JoinSet<()>,
}

impl FlushTask {
    pub(super) fn start(flusher: Flusher) -> Self {
        let (stop, stopped) = oneshot::channel();
        let mut task = JoinSet::new();
        let work = flusher.run(async {
            let _ = stopped.await;
        });
        task.spawn(supervised("clicks", work));
        Self { stop, task }
    }

    /// Writes what was counted, for a limited time. No request may be counted any more.
    pub async fn end(mut self) {
        let _ = self.stop.send(());
        while self.task.join_next().await.is_some() {}
    }
}
