//! A bounded queue that drops and counts on overflow, and the task that sends its items in batches.

use std::{collections::VecDeque, future::Future, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use super::wire::{Message, prefixed};
use crate::budget::Budget;

/// The fullness of the queue from which on the task sends at once: one part of so many of its bytes.
const PLENTY: usize = 4;
/// The size from which on a batch is full, in bytes: some thousand items. A gRPC server accepts 4 MiB and refuses a larger
/// batch with all its items, and smaller batches would need too many round trips at tens of thousands of requests per
/// second. [`crate::memory`] has room for three times this size.
const BATCH: usize = 1024 * 1024;
/// The size from which on a chunk is full, in bytes: the allocation that is made at once.
const CHUNK: usize = 64 * 1024;
/// The time for which the first item waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// The field of the items: `spans` of a message `ScopeSpans`, and `log_records` of a message `ScopeLogs`.
const ITEMS: u32 = 2;

/// Encoded items of one instrumentation scope, as fields of the message that groups them.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The name of the scope.
    pub(super) scope: &'static str,
    /// The items.
    pub(super) items: Message,
    count: u64,
}

impl Chunk {
    fn takes(&self, scope: &'static str, bytes: usize) -> bool {
        self.scope == scope && self.bytes() + bytes <= CHUNK
    }

    fn bytes(&self) -> usize {
        self.items.bytes().len()
    }
}

/// An exporter of batches.
pub(super) trait Export: Send + 'static {
    /// Sends one batch within a bounded time; the error is the reason of a failure.
    fn export(&self, batch: Vec<Chunk>) -> impl Future<Output = Result<(), String>> + Send;
}

/// The sending half of the queue; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<VecDeque<Chunk>>,
    budget: Budget,
    /// Told of the first item of an empty queue.
    first: Notify,
    plenty: Notify,
    dropped: Counter,
}

impl Queue {
    /// Returns a queue of this size and the task that empties it. The task runs until `end` is true and the queue is
    /// empty.
    pub(super) fn start<E: Export>(
        exporter: E,
        budget: Budget,
        dropped: Counter,
        end: watch::Receiver<bool>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            budget,
            first: Notify::new(),
            plenty: Notify::new(),
            dropped,
        });
        let drain = Drain {
            exporter,
            shared: Arc::clone(&shared),
            last_reason: None,
        };
        (Self(shared), drain.run(end))
    }

    /// Queues an encoded item of this scope, or drops it if the queue is full. Never waits.
    pub(super) fn offer(&self, scope: &'static str, item: &Message) {
        let shared = &self.0;
        let bytes = 1 + prefixed(item.bytes().len());
        if !shared.budget.hold(bytes) {
            shared.dropped.inc();
            return;
        }
        if shared.push(scope, bytes, item) {
            shared.first.notify_one();
        }
        if shared.budget.used() >= shared.budget.limit() / PLENTY {
            shared.plenty.notify_one();
        }
    }
}

impl Shared {
    /// Appends an item. Returns true if the queue was empty.
    fn push(&self, scope: &'static str, bytes: usize, item: &Message) -> bool {
        let mut waiting = self.waiting.lock();
        let was_empty = waiting.is_empty();
        if let Some(last) = waiting.back_mut().filter(|last| last.takes(scope, bytes)) {
            last.items.nested(ITEMS, item.bytes());
            last.count += 1;
            return was_empty;
        }
        let mut items = Message::default();
        items.nested(ITEMS, item.bytes());
        waiting.push_back(Chunk {
            scope,
            items,
            count: 1,
        });
        was_empty
    }

    /// Takes the items of one batch, which leave their room to others. The second value is true if more may wait.
    fn take(&self) -> (Vec<Chunk>, bool) {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut waiting = self.waiting.lock();
        while bytes < BATCH
            && let Some(chunk) = waiting.pop_front()
        {
            bytes += chunk.bytes();
            batch.push(chunk);
        }
        self.budget.release(bytes);
        (batch, bytes >= BATCH)
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }
}

struct Drain<E> {
    exporter: E,
    shared: Arc<Shared>,
    /// The reason why the last batch failed; `None` if it was sent.
    last_reason: Option<String>,
}

impl<E: Export> Drain<E> {
    async fn run(mut self, mut end: watch::Receiver<bool>) {
        loop {
            // Waits for the first item without a timer, so that an idle process does nothing.
            tokio::select! {
                () = self.shared.first.notified() => {}
                _ = end.wait_for(|end| *end) => {}
            }
            // Waking up for each item would cost more than creating it.
            tokio::select! {
                () = sleep(GATHER) => {}
                () = self.shared.plenty.notified() => {}
                _ = end.wait_for(|end| *end) => {}
            }
            // Until a batch is not full. Items that arrive later wait for the next round.
            loop {
                let (batch, full) = self.shared.take();
                self.send(batch).await;
                if !full {
                    break;
                }
            }
            let ends = *end.borrow() || end.has_changed().is_err();
            if ends && self.shared.is_empty() {
                return;
            }
        }
    }

    async fn send(&mut self, batch: Vec<Chunk>) {
        if batch.is_empty() {
            return;
        }
        let items = batch.iter().map(|chunk| chunk.count).sum();
        let reason = self.exporter.export(batch).await.err();
        if let Some(reason) = &reason {
            self.shared.dropped.inc_by(items);
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
    use tokio::time::{Instant, timeout};

    use super::*;

    const LIMIT: usize = 4 * 1024 * 1024;
    /// The bytes of a small item in the queue.
    const SMALL: usize = 64;

    /// A batch: its items and its bytes.
    type Seen = (u64, usize);

    /// Records batches, and fails or blocks as configured.
    #[derive(Clone, Default)]
    struct Taker {
        batches: Arc<Mutex<Vec<Seen>>>,
        refuses: bool,
        frozen: bool,
    }

    impl Taker {
        fn items(&self) -> Vec<u64> {
            self.batches
                .lock()
                .iter()
                .map(|(items, _)| *items)
                .collect()
        }
    }

    impl Export for Taker {
        async fn export(&self, batch: Vec<Chunk>) -> Result<(), String> {
            let items = batch.iter().map(|chunk| chunk.count).sum();
            let bytes = batch.iter().map(Chunk::bytes).sum();
            self.batches.lock().push((items, bytes));
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
        queue: Queue,
        dropped: Counter,
        end: watch::Sender<bool>,
        work: tokio::task::JoinHandle<()>,
    }

    fn start(taker: &Taker) -> Started {
        let (dropped, end) = (Counter::default(), watch::Sender::new(false));
        let budget = Budget::new(LIMIT);
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
        offer_of(started, items, SMALL);
    }

    /// Offers items that take this many bytes in the queue.
    fn offer_of(started: &Started, items: usize, bytes: usize) {
        let content = (0..bytes).rev().find(|length| prefixed(*length) < bytes);
        let mut item = Message::default();
        item.fields(&vec![0; content.unwrap()]);
        for _ in 0..items {
            started.queue.offer("test", &item);
        }
    }

    async fn first_batch(taker: &Taker) {
        while taker.batches.lock().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_goes_out_together_and_soon() {
        let taker = Taker::default();
        let started = start(&taker);
        offer(&started, 3);
        let begin = Instant::now();
        first_batch(&taker).await;
        assert!(begin.elapsed() <= GATHER + Duration::from_millis(2));
        assert_eq!(taker.items(), [3]);
        assert_eq!(started.dropped.get(), 0);
    }

    #[tokio::test]
    async fn plenty_goes_out_at_once_in_batches_of_bounded_size() {
        let taker = Taker::default();
        let started = start(&taker);
        let items = 2 * BATCH / SMALL;
        offer(&started, items);
        let sent = async {
            while taker.items().iter().sum::<u64>() < items as u64 {
                tokio::task::yield_now().await;
            }
        };
        timeout(GATHER / 2, sent).await.unwrap();
        let batches = taker.batches.lock();
        assert!(batches.iter().all(|(_, bytes)| *bytes <= BATCH + CHUNK));
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
        assert_eq!(taker.items(), [1]);
        offer(&started, LIMIT / SMALL + 7);
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
        let items = BATCH / SMALL + 1;
        offer(&started, items);
        started.end.send_replace(true);
        timeout(GATHER / 2, started.work).await.unwrap().unwrap();
        assert_eq!(taker.items().iter().sum::<u64>(), items as u64);
        assert_eq!(started.dropped.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn large_items_fill_the_queue_and_a_batch_by_their_bytes() {
        let taker = Taker::default();
        let started = start(&taker);
        // As large as the log record of a request with a path of 8 KiB.
        let large = 16 * 1024;
        let fit = LIMIT / large;
        offer_of(&started, fit + 9, large);
        assert_eq!(started.dropped.get(), 9);
        sleep(GATHER * 2).await;
        let full = (BATCH / large) as u64;
        assert_eq!(taker.items(), [full].repeat(LIMIT / BATCH));
        offer_of(&started, fit, large);
        assert_eq!(started.dropped.get(), 9, "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn items_of_different_scopes_are_not_mixed() {
        #[derive(Clone, Default)]
        struct Scopes(Arc<Mutex<Vec<(&'static str, u64)>>>);
        impl Export for Scopes {
            async fn export(&self, batch: Vec<Chunk>) -> Result<(), String> {
                let seen = batch.iter().map(|chunk| (chunk.scope, chunk.count));
                self.0.lock().extend(seen);
                Ok(())
            }
        }
        let (scopes, end) = (Scopes::default(), watch::Sender::new(true));
        let budget = Budget::new(LIMIT);
        let (queue, work) =
            Queue::start(scopes.clone(), budget, Counter::default(), end.subscribe());
        for scope in ["a", "a", "b", "a"] {
            queue.offer(scope, &Message::default());
        }
        work.await;
        assert_eq!(*scopes.0.lock(), [("a", 2), ("b", 1), ("a", 1)]);
    }
}
