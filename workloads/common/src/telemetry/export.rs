//! Sending batches with the exporters of the OpenTelemetry project, with a timeout.

use std::future::Future;

use opentelemetry::{
    InstrumentationScope, Key, KeyValue, Value,
    logs::AnyValue,
    trace::{Link, Status},
};
use opentelemetry_otlp::{LogExporter, SpanExporter};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    logs::{LogBatch, LogExporter as _, SdkLogRecord},
    trace::{SpanData, SpanExporter as _},
};
use tokio::time::timeout;

use super::{
    EXPORT,
    queue::{Export, Weigh},
};

impl Weigh for SpanData {
    fn bytes(&self) -> usize {
        let text = |attribute: &KeyValue| match &attribute.value {
            Value::String(text) => text.as_str().len(),
            _ => 0,
        };
        let description = match &self.status {
            Status::Error { description } => description.len(),
            _ => 0,
        };
        size_of::<Self>()
            + self.name.len()
            + description
            + self.attributes.capacity() * size_of::<KeyValue>()
            + self.attributes.iter().map(text).sum::<usize>()
            + self.links.links.capacity() * size_of::<Link>()
    }
}

impl Weigh for SdkLogRecord {
    fn bytes(&self) -> usize {
        let attribute = |(_, value): &(Key, AnyValue)| {
            let text = match value {
                AnyValue::String(text) => text.as_str().len(),
                _ => 0,
            };
            size_of::<(Key, AnyValue)>() + text
        };
        size_of::<Self>() + self.attributes_iter().map(attribute).sum::<usize>()
    }
}

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
