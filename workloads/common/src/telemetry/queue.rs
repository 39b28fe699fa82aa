//! A bounded queue that drops and counts on overflow, and the task that sends its items in batches.

use std::{future::Future, sync::Arc, time::Duration};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::sleep,
};

use crate::budget::{Budget, Share};

/// The maximum number of queued items: a tenth of a second at the highest load.
const CAPACITY: usize = 8192;
/// The fullness of the queue from which on the task sends at once: one part of so many, of the items or of the bytes.
const PLENTY: usize = 4;
/// The maximum number of items in a batch. Smaller batches would need too many round trips at tens of thousands of
/// requests per second.
const BATCH: usize = 2048;
/// The size from which on a batch is full, in bytes. A gRPC server accepts 4 MiB and refuses a larger batch with all its
/// items. Items take more bytes in memory than on the way, and [`crate::memory`] has room for three times this size.
const BATCH_BYTES: usize = 1024 * 1024;
/// The time for which the first item waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// An item whose size is known.
pub(super) trait Weigh {
    /// Returns the bytes that it takes in memory, more or less.
    fn bytes(&self) -> usize;
}

/// An exporter of batches.
pub(super) trait Export: Send + 'static {
    /// A span or a log record.
    type Item: Weigh + Send + 'static;

    /// Sends one batch within a bounded time; the error is the reason of a failure.
    fn export(&self, batch: Vec<Self::Item>) -> impl Future<Output = Result<(), String>> + Send;
}

/// The sending half of the queue; cheap to clone.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: mpsc::Sender<Queued<T>>,
    budget: Budget,
    plenty: Arc<Notify>,
    dropped: Counter,
}

/// An item with its share of the memory of the queue.
type Queued<T> = (T, Share);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            waiting: self.waiting.clone(),
            budget: self.budget.clone(),
            plenty: Arc::clone(&self.plenty),
            dropped: self.dropped.clone(),
        }
    }
}

impl<T: Weigh + Send + 'static> Queue<T> {
    /// Returns a queue of this size and the task that empties it. The task runs until `end` is true and the queue is
    /// empty.
    pub(super) fn start<E: Export<Item = T>>(
        exporter: E,
        budget: Budget,
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
            budget,
            plenty,
            dropped,
        };
        (queue, drain.run(end))
    }

    /// Queues an item, or drops it if the queue is full. Never waits.
    pub(super) fn offer(&self, item: T) {
        let share = self.budget.take(item.bytes());
        let queued = share.is_some_and(|share| self.waiting.try_send((item, share)).is_ok());
        if !queued {
            self.dropped.inc();
        } else if self.has_plenty() {
            self.plenty.notify_one();
        }
    }

    fn has_plenty(&self) -> bool {
        self.waiting.capacity() <= CAPACITY - CAPACITY / PLENTY
            || self.budget.used() >= self.budget.limit() / PLENTY
    }
}

/// Items that are sent together.
struct Batch<T> {
    items: Vec<T>,
    bytes: usize,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
        }
    }
}

impl<T: Weigh> Batch<T> {
    /// Adds an item, which leaves its share to others of the queue.
    fn push(&mut self, (item, _share): Queued<T>) {
        self.bytes += item.bytes();
        self.items.push(item);
    }

    fn is_full(&self) -> bool {
        self.items.len() >= BATCH || self.bytes >= BATCH_BYTES
    }
}

struct Drain<E: Export> {
    exporter: E,
    items: mpsc::Receiver<Queued<E::Item>>,
    plenty: Arc<Notify>,
    dropped: Counter,
    /// The reason why the last batch failed; `None` if it was sent.
    last_reason: Option<String>,
}

impl<E: Export> Drain<E> {
    async fn run(mut self, mut end: watch::Receiver<bool>) {
        let mut batch = Batch::default();
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
                while !batch.is_full()
                    && let Ok(item) = self.items.try_recv()
                {
                    batch.push(item);
                }
                let full = batch.is_full();
                self.send(std::mem::take(&mut batch).items).await;
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

    const BYTES: usize = 4 * 1024 * 1024;

    /// An item of this many bytes.
    struct Weight(usize);

    impl Weigh for Weight {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    /// Records the sizes of batches, and fails or blocks as configured.
    #[derive(Clone, Default)]
    struct Taker {
        batches: Arc<Mutex<Vec<usize>>>,
        refuses: bool,
        frozen: bool,
    }

    impl Export for Taker {
        type Item = Weight;

        async fn export(&self, batch: Vec<Weight>) -> Result<(), String> {
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
        queue: Queue<Weight>,
        dropped: Counter,
        end: watch::Sender<bool>,
        work: tokio::task::JoinHandle<()>,
    }

    fn start(taker: &Taker) -> Started {
        let (dropped, end) = (Counter::default(), watch::Sender::new(false));
        let budget = Budget::new(BYTES);
        let (queue, work) = Queue::start(taker.clone(), budget, dropped.clone(), end.subscribe());
        Started {
            queue,
            dropped,
            end,
            work: tokio::spawn(work),
        }
    }

    /// Offers small items.
    fn offer(started: &Started, items: usize) {
        offer_of(started, items, 1);
    }

    fn offer_of(started: &Started, items: usize, bytes: usize) {
        for _ in 0..items {
            started.queue.offer(Weight(bytes));
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
        let items = CAPACITY / PLENTY + BATCH;
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

    #[tokio::test(start_paused = true)]
    async fn large_items_fill_the_queue_and_a_batch_by_their_bytes() {
        let taker = Taker::default();
        let started = start(&taker);
        // As large as the log record of a request with a path of 8 KiB.
        let large = 16 * 1024;
        offer_of(&started, CAPACITY, large);
        let fit = BYTES / large;
        assert_eq!(started.dropped.get(), (CAPACITY - fit) as u64);
        sleep(GATHER * 2).await;
        let batches = taker.batches.lock().unwrap().clone();
        assert_eq!(
            batches,
            [BATCH_BYTES / large].repeat(fit * large / BATCH_BYTES)
        );
        offer_of(&started, fit, large);
        assert_eq!(
            started.dropped.get(),
            (CAPACITY - fit) as u64,
            "there is room again"
        );
    }
}
