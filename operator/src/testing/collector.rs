//! An in-memory collector of spans, for tests.

use std::{sync::Arc, time::Duration};

use opentelemetry::Context;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use parking_lot::Mutex;

use crate::telemetry::{Telemetry, service};

/// An in-memory collector, which has a span as soon as it ends; clones share its state.
#[derive(Clone, Debug, Default)]
pub struct FakeCollector(Arc<Mutex<Vec<SpanData>>>);

impl FakeCollector {
    /// Starts the export of all traces to the collector.
    pub fn telemetry(&self) -> Telemetry {
        Telemetry::to(self.clone(), service("op-0"), 1.0)
    }

    /// Returns the spans so far, in the order in which they ended.
    pub fn spans(&self) -> Vec<SpanData> {
        self.0.lock().clone()
    }
}

impl SpanProcessor for FakeCollector {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
