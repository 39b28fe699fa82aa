//! The queues of the SDK and its exporters, with what they do not do: to count each item that is lost, and to tell of an
//! outage once.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    logs::{self, BatchLogProcessor, LogBatch, LogExporter, LogProcessor, SdkLogRecord},
    trace::{self, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};

/// The maximum number of items in a batch: about half a mebibyte, far below the 4 MiB that a gRPC server takes.
const BATCH: usize = 512;
/// The time for which the first item of a batch waits for others.
pub(crate) const GATHER: Duration = Duration::from_secs(1);

/// The size of the queue of a signal, and the counter of the items that the collector did not take.
pub struct Queue {
    capacity: usize,
    dropped: Box<dyn Fn(u64) + Send + Sync>,
}

impl Queue {
    /// Returns a queue of at most this many items. `dropped` counts the lost ones.
    pub fn new(capacity: usize, dropped: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            capacity,
            dropped: Box::new(dropped),
        }
    }

    fn watch(self) -> Arc<Watch> {
        Arc::new(Watch {
            queue: self,
            waiting: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
        })
    }
}

/// Returns the queue of spans in front of an exporter.
pub(crate) fn span_processor<E: SpanExporter + 'static>(
    exporter: E,
    queue: Queue,
) -> impl SpanProcessor + 'static {
    let config = trace::BatchConfigBuilder::default()
        .with_max_queue_size(queue.capacity)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(GATHER)
        .build();
    let watch = queue.watch();
    let exporter = watch.over(exporter);
    watch.over(BatchSpanProcessor::new(exporter, config))
}

/// Returns the queue of log records in front of an exporter.
pub(crate) fn log_processor<E: LogExporter + 'static>(
    exporter: E,
    queue: Queue,
) -> impl LogProcessor + 'static {
    let config = logs::BatchConfigBuilder::default()
        .with_max_queue_size(queue.capacity)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(GATHER)
        .build();
    let watch = queue.watch();
    let exporter = watch.over(exporter);
    let processor = BatchLogProcessor::builder(exporter).with_batch_config(config);
    watch.over(processor.build())
}

/// The watch over a queue of the SDK, which drops items without a word once it is full.
struct Watch {
    queue: Queue,
    /// The number of items in the queue, or slightly more: an item is let in only if it has a place.
    waiting: AtomicUsize,
    /// True when the last batch was not taken.
    fails: AtomicBool,
}

impl Watch {
    fn over<T>(self: &Arc<Self>, inner: T) -> Watched<T> {
        Watched {
            inner,
            watch: Arc::clone(self),
        }
    }

    /// Returns true if an item has a place in the queue, and counts it otherwise.
    fn lets_in(&self) -> bool {
        let fits = self.waiting.fetch_add(1, Ordering::Relaxed) < self.queue.capacity;
        if !fits {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            (self.queue.dropped)(1);
        }
        fits
    }

    /// Sends a batch of so many items that have left the queue.
    async fn send(
        &self,
        items: usize,
        export: impl Future<Output = OTelSdkResult>,
    ) -> OTelSdkResult {
        self.waiting.fetch_sub(items, Ordering::Relaxed);
        let result = export.await;
        let failed_before = self.fails.swap(result.is_err(), Ordering::Relaxed);
        if let Err(error) = &result {
            (self.queue.dropped)(items as u64);
            // Logged once per outage, and not once per batch.
            if !failed_before {
                tracing::warn!(
                    event = "telemetry_unavailable",
                    error.message = %error,
                    "telemetry_unavailable"
                );
            }
        }
        result
    }
}

/// An end of the queue of a signal: what fills it, or what empties it.
pub(crate) struct Watched<T> {
    inner: T,
    watch: Arc<Watch>,
}

impl<T: fmt::Debug> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl SpanProcessor for Watched<BatchSpanProcessor> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.watch.lets_in() {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let items = batch.len();
        self.watch.send(items, self.inner.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl LogProcessor for Watched<BatchLogProcessor> {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.watch.lets_in() {
            self.inner.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Watched<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let items = batch.iter().count();
        self.watch.send(items, self.inner.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
