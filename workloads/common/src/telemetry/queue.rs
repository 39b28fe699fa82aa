//! A bounded queue that drops and counts on overflow, and the task that sends its items in batches.

use std::{future::Future, sync::Arc, time::Duration};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::sleep,
};

/// The maximum number of queued items: some megabytes while the collector is silent, and a tenth of a second at the
/// highest load.
const CAPACITY: usize = 8192;
/// The number of queued items from which on the task sends at once.
const PLENTY: usize = CAPACITY / 4;
/// The maximum size of a batch. A gRPC server accepts 4 MiB; a span has about 400 bytes, and the record of a
/// request rarely more than 1 KiB. Smaller batches would need too many round trips at tens of thousands of requests
/// per second.
const BATCH: usize = 2048;
/// The time for which the first item waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// An exporter of batches.
pub(super) trait Export: Send + 'static {
    /// A span or a log record.
    type Item: Send + 'static;

    /// Sends one batch within a bounded time; the error is the reason of a failure.
    fn export(&self, batch: Vec<Self::Item>) -> impl Future<Output = Result<(), String>> + Send;
}

/// The sending half of the queue; cheap to clone.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: mpsc::Sender<T>,
    plenty: Arc<Notify>,
    dropped: Counter,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            waiting: self.waiting.clone(),
            plenty: Arc::clone(&self.plenty),
            dropped: self.dropped.clone(),
        }
    }
}

impl<T: Send + 'static> Queue<T> {
    /// Returns a queue and the task that empties it. The task runs until `end` is true and the queue is empty.
    pub(super) fn start<E: Export<Item = T>>(
        exporter: E,
        dropped: Counter,
        end: watch::Receiver<bool>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (waiting, items) = mpsc::channel(CAPACITY);
        let plenty = Arc::new(Notify::new());
        let drain = Drain {
            exporter,
            items,
            plenty: Arc::clone(&plenty),
            dropped: dropped.clone(),
            last_reason: None,
        };
        let queue = Self {
            waiting,
            plenty,
            dropped,
        };
        (queue, drain.run(end))
    }

    /// Queues an item, or drops it if the queue is full. Never waits.
    pub(super) fn offer(&self, item: T) {
        if self.waiting.try_send(item).is_err() {
            self.dropped.inc();
        } else if self.waiting.capacity() <= CAPACITY - PLENTY {
            self.plenty.notify_one();
        }
    }
}

struct Drain<E: Export> {
    exporter: E,
    items: mpsc::Receiver<E::Item>,
    plenty: Arc<Notify>,
    dropped: Counter,
    /// The reason why the last batch failed; `None` if it was sent.
    last_reason: Option<String>,
}

impl<E: Export> Drain<E> {
    async fn run(mut self, mut end: watch::Receiver<bool>) {
        let mut batch = Vec::new();
        loop {
            // Waits for the first item without a timer, so that an idle process does nothing.
            tokio::select! {
                first = self.items.recv() => match first {
                    Some(first) => batch.push(first),
                    None => return,
                },
                _ = end.wait_for(|end| *end) => {}
            }
            // Waking up for each item would cost more than creating it.
            tokio::select! {
                () = sleep(GATHER) => {}
                () = self.plenty.notified() => {}
                _ = end.wait_for(|end| *end) => {}
            }
            // Until a batch is not full. Items that arrive later wait for the next round.
            loop {
                while batch.len() < BATCH
                    && let Ok(item) = self.items.try_recv()
                {
                    batch.push(item);
                }
                let full = batch.len() == BATCH;
                self.send(std::mem::take(&mut batch)).await;
                if !full {
                    break;
                }
            }
            let ends = *end.borrow() || end.has_changed().is_err();
            if ends && self.items.is_empty() {
                return;
            }
        }
    }

    async fn send(&mut self, batch: Vec<E::Item>) {
        if batch.is_empty() {
            return;
        }
        let items = batch.len() as u64;
        let reason = self.exporter.export(batch).await.err();
        if let Some(reason) = &reason {
            self.dropped.inc_by(items);
            // Logged once per outage, and not once per batch.
            if self.last_reason.is_none() {
                tracing::warn!(
                    event = "telemetry_unavailable",
                    error.message = reason,
                    "telemetry_unavailable"
                );
            }
        }
        self.last_reason = reason;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::{Instant, timeout};

    use super::*;

    /// Records the sizes of batches, and fails or blocks as configured.
    #[derive(Clone, Default)]
    struct Taker {
        batches: Arc<Mutex<Vec<usize>>>,
        refuses: bool,
        frozen: bool,
    }

    impl Export for Taker {
        type Item = usize;

        async fn export(&self, batch: Vec<usize>) -> Result<(), String> {
            self.batches.lock().unwrap().push(batch.len());
            if self.frozen {
                std::future::pending::<()>().await;
            }
            if self.refuses {
                return Err("refused".to_owned());
            }
            Ok(())
        }
    }

    struct Started {
        queue: Queue<usize>,
        dropped: Counter,
        end: watch::Sender<bool>,
        work: tokio::task::JoinHandle<()>,
    }

    fn start(taker: &Taker) -> Started {
        let (dropped, end) = (Counter::default(), watch::Sender::new(false));
        let (queue, work) = Queue::start(taker.clone(), dropped.clone(), end.subscribe());
        Started {
            queue,
            dropped,
            end,
            work: tokio::spawn(work),
        }
    }

    fn offer(started: &Started, items: usize) {
        for item in 0..items {
            started.queue.offer(item);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_goes_out_together_and_soon() {
        let taker = Taker::default();
        let started = start(&taker);
        offer(&started, 3);
        let begin = Instant::now();
        while taker.batches.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(begin.elapsed() <= GATHER + Duration::from_millis(2));
        assert_eq!(*taker.batches.lock().unwrap(), [3]);
        assert_eq!(started.dropped.get(), 0);
    }

    #[tokio::test]
    async fn plenty_goes_out_at_once_in_batches_of_bounded_size() {
        let taker = Taker::default();
        let started = start(&taker);
        let items = PLENTY + BATCH;
        offer(&started, items);
        let sent = async {
            while taker.batches.lock().unwrap().iter().sum::<usize>() < items {
                tokio::task::yield_now().await;
            }
        };
        timeout(GATHER / 2, sent).await.unwrap();
        assert!(
            taker
                .batches
                .lock()
                .unwrap()
                .iter()
                .all(|size| *size <= BATCH)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn at_a_silent_collector_the_queue_fills_and_everything_beyond_is_counted() {
        let taker = Taker {
            frozen: true,
            ..Taker::default()
        };
        let started = start(&taker);
        offer(&started, 1);
        sleep(GATHER * 2).await;
        assert_eq!(*taker.batches.lock().unwrap(), [1]);
        offer(&started, CAPACITY + 7);
        assert_eq!(started.dropped.get(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_cannot_be_sent_is_counted() {
        let taker = Taker {
            refuses: true,
            ..Taker::default()
        };
        let started = start(&taker);
        offer(&started, 5);
        sleep(GATHER * 2).await;
        assert_eq!(started.dropped.get(), 5);
        offer(&started, 4);
        sleep(GATHER * 2).await;
        assert_eq!(started.dropped.get(), 9);
    }

    #[tokio::test]
    async fn at_the_end_everything_that_waits_is_sent_at_once() {
        let taker = Taker::default();
        let started = start(&taker);
        offer(&started, BATCH + 1);
        started.end.send_replace(true);
        timeout(GATHER / 2, started.work).await.unwrap().unwrap();
        assert_eq!(
            taker.batches.lock().unwrap().iter().sum::<usize>(),
            BATCH + 1
        );
        assert_eq!(started.dropped.get(), 0);
    }
}
