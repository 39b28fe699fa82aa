//! Sending batches with the exporters of the OpenTelemetry project, with a timeout.

use std::future::Future;

use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{LogExporter, SpanExporter};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    logs::{LogBatch, LogExporter as _, SdkLogRecord},
    trace::{SpanData, SpanExporter as _},
};
use tokio::time::timeout;

use super::{EXPORT, queue::Export};

/// The exporter of spans.
pub(super) struct ExportSpans(pub(super) SpanExporter);

impl Export for ExportSpans {
    type Item = SpanData;

    async fn export(&self, batch: Vec<SpanData>) -> Result<(), String> {
        within_time(self.0.export(batch)).await
    }
}

/// The exporter of log records.
pub(super) struct ExportLogs {
    exporter: LogExporter,
    scope: InstrumentationScope,
}

impl ExportLogs {
    /// Returns an exporter that assigns this scope to all records.
    pub(super) fn new(exporter: LogExporter, scope: InstrumentationScope) -> Self {
        Self { exporter, scope }
    }
}

impl Export for ExportLogs {
    type Item = SdkLogRecord;

    async fn export(&self, batch: Vec<SdkLogRecord>) -> Result<(), String> {
        let records: Vec<_> = batch.iter().map(|record| (record, &self.scope)).collect();
        within_time(self.exporter.export(LogBatch::new(&records))).await
    }
}

/// Adds the timeout. The exporters check their deadline between attempts only.
async fn within_time(export: impl Future<Output = OTelSdkResult>) -> Result<(), String> {
    match timeout(EXPORT, export).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", EXPORT.as_secs())),
    }
}
