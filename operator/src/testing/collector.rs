//! An in-memory collector of spans, for tests.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use parking_lot::Mutex;
use prometheus::IntCounter;

use crate::telemetry::Telemetry;

/// An in-memory collector; clones share its state.
#[derive(Clone, Debug)]
pub struct FakeCollector {
    batches: Arc<Mutex<Vec<Vec<SpanData>>>>,
    frozen: Arc<AtomicBool>,
    dropped: IntCounter,
}

impl Default for FakeCollector {
    fn default() -> Self {
        Self {
            batches: Arc::default(),
            frozen: Arc::default(),
            dropped: IntCounter::new("dropped", "Spans that were dropped.").unwrap(),
        }
    }
}

impl FakeCollector {
    /// Starts the export of this share of all traces to the collector.
    pub fn telemetry(&self, ratio: f64) -> Telemetry {
        Telemetry::to(self.clone(), ratio, self.dropped.clone())
    }

    /// Leaves later batches without an answer.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    /// Takes later batches again.
    pub fn thaw(&self) {
        self.frozen.store(false, Ordering::Relaxed);
    }

    /// Returns the spans so far, in the order in which they ended.
    pub fn spans(&self) -> Vec<SpanData> {
        self.batches.lock().concat()
    }

    /// Returns the number of spans in each batch.
    pub fn batches(&self) -> Vec<usize> {
        self.batches.lock().iter().map(Vec::len).collect()
    }

    /// Returns the number of spans that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }
}

impl SpanExporter for FakeCollector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        if self.frozen.load(Ordering::Relaxed) {
            return pending().await;
        }
        self.batches.lock().push(batch);
        Ok(())
    }
}
