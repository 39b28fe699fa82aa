//! A bounded queue of spans, and the task that sends them in batches.

use std::time::Duration;

use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prometheus::IntCounter;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// Maximum number of spans that wait: those of about a hundred new stacks, in 4 MiB of memory.
pub(super) const CAPACITY: usize = 4096;
/// Maximum number of spans in a batch, far below the 4 MiB that a gRPC server takes.
const BATCH: usize = 512;
/// Time for which the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// Time limit of one batch, attempts to connect included.
pub(super) const EXPORT: Duration = Duration::from_secs(5);

/// The sending half of the queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    waiting: mpsc::Sender<SpanData>,
    dropped: IntCounter,
}

impl Queue {
    /// Returns a queue and the task that empties it. The task runs until `end` is cancelled and the queue is empty.
    pub(super) fn start<E: SpanExporter + 'static>(
        exporter: E,
        dropped: IntCounter,
        end: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (waiting, spans) = mpsc::channel(CAPACITY);
        let drain = Drain {
            exporter,
            spans,
            dropped: dropped.clone(),
            fails: false,
        };
        (Self { waiting, dropped }, drain.run(end))
    }

    /// Queues a span, or drops it if the queue is full. Never waits.
    pub(super) fn offer(&self, span: SpanData) {
        if self.waiting.try_send(span).is_err() {
            self.dropped.inc();
        }
    }
}

struct Drain<E> {
    exporter: E,
    spans: mpsc::Receiver<SpanData>,
    dropped: IntCounter,
    /// True when the last batch was not taken.
    fails: bool,
}

impl<E: SpanExporter> Drain<E> {
    async fn run(mut self, end: CancellationToken) {
        loop {
            let mut batch = Vec::new();
            // Waits for the first span without a timer, so that an idle operator does nothing.
            tokio::select! {
                first = self.spans.recv() => match first {
                    Some(first) => batch.push(first),
                    None => return,
                },
                () = end.cancelled() => {}
            }
            tokio::select! {
                () = fill(&mut self.spans, &mut batch) => {}
                () = sleep(GATHER) => {}
                () = end.cancelled() => {}
            }
            while batch.len() < BATCH
                && let Ok(span) = self.spans.try_recv()
            {
                batch.push(span);
            }
            self.send(batch).await;
            if end.is_cancelled() && self.spans.is_empty() {
                return;
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        let error = match timeout(EXPORT, self.exporter.export(batch)).await {
            Ok(taken) => taken.err().map(|error| error.to_string()),
            Err(_) => Some(format!("no answer within {} s", EXPORT.as_secs())),
        };
        if let Some(error) = &error {
            self.dropped.inc_by(count);
            // Once for an outage, and not once for a batch.
            if !self.fails {
                tracing::warn!(%error, "the collector does not take spans, so they are dropped: check OTEL_EXPORTER_OTLP_ENDPOINT");
            }
        } else if self.fails {
            tracing::info!("the collector takes spans again");
        }
        self.fails = error.is_some();
    }
}

/// Waits until the batch is full, or no span can come any more.
async fn fill(spans: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    while batch.len() < BATCH && spans.recv_many(batch, BATCH - batch.len()).await > 0 {}
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::testing::collector::FakeCollector;

    #[tokio::test(start_paused = true)]
    async fn a_frozen_collector_costs_spans_and_no_time() {
        let collector = FakeCollector::default();
        collector.freeze();
        let telemetry = collector.telemetry(1.0);
        let started = Instant::now();
        for _ in 0..2 * CAPACITY {
            telemetry.tracer().root("work").unwrap().end();
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert_eq!(collector.dropped(), CAPACITY as u64);
        telemetry.shutdown().await;
        assert!(started.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn spans_wait_for_others_and_not_for_long() {
        let collector = FakeCollector::default();
        let telemetry = collector.telemetry(1.0);
        for _ in 0..2 {
            telemetry.tracer().root("work").unwrap().end();
        }
        sleep(GATHER * 2).await;
        assert_eq!(collector.batches(), [2]);
        for _ in 0..=BATCH {
            telemetry.tracer().root("work").unwrap().end();
        }
        sleep(GATHER * 3).await;
        assert_eq!(collector.batches(), [2, BATCH, 1]);
        assert_eq!(collector.dropped(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn spans_are_taken_again_after_an_outage() {
        let collector = FakeCollector::default();
        let telemetry = collector.telemetry(1.0);
        collector.freeze();
        telemetry.tracer().root("lost").unwrap().end();
        sleep(GATHER + EXPORT * 2).await;
        collector.thaw();
        telemetry.tracer().root("kept").unwrap().end();
        telemetry.shutdown().await;
        let names: Vec<_> = collector
            .spans()
            .into_iter()
            .map(|span| span.name)
            .collect();
        assert_eq!(names, ["kept"]);
        assert_eq!(collector.dropped(), 1);
    }
}
