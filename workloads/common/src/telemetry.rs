//! The export of traces and logs to a collector, within the memory of the program.

pub mod call;
mod dropped;
pub mod messaging;

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
pub use shortener_telemetry::{LogRecords, Service, TelemetryError, span};
use shortener_telemetry::{Queue, Telemetry as Export};

pub use self::dropped::Dropped;
use self::span::Tracer;
use crate::memory::Memory;

/// The time limit for the last batches at shutdown. A termination grace period has to include it.
const FLUSH: Duration = Duration::from_secs(2);
/// The memory of a span or a log record that waits, in bytes. No client chooses the size of one: texts of requests are cut.
const ITEM: usize = 1536;
/// The maximum number of spans that wait, and of log records, however much memory there is.
const WAITING: usize = 64 * 1024;

/// The export of one process, from its start to its last batch.
#[derive(Debug, Default)]
pub struct Telemetry {
    export: Export,
    dropped: Option<Dropped>,
}

impl Telemetry {
    /// Starts the export of every trace and every log record to this endpoint, with queues that fit into this memory.
    /// Without an endpoint nothing is exported.
    ///
    /// # Errors
    /// Fails if the endpoint is malformed. A collector that is down is not an error.
    pub fn start(
        endpoint: Option<&str>,
        service: Service<'_>,
        memory: &Memory,
    ) -> Result<Self, TelemetryError> {
        let Some(endpoint) = endpoint else {
            return Ok(Self::default());
        };
        let queue = |bytes: usize, dropped: &Counter| {
            let dropped = dropped.clone();
            Queue::new((bytes / ITEM).min(WAITING), move |items| {
                dropped.inc_by(items);
            })
        };
        let dropped = Dropped::default();
        let spans = queue(memory.spans, &dropped.traces);
        let records = queue(memory.log_records, &dropped.logs);
        Ok(Self {
            export: Export::start(endpoint, service, 1.0, spans, Some(records))?,
            dropped: Some(dropped),
        })
    }

    /// Returns the tracer of this process.
    pub fn tracer(&self) -> Tracer {
        self.export.tracer()
    }

    /// Returns the log layer that exports the events of this process.
    pub fn log_records(&self) -> Option<LogRecords> {
        self.export.log_records()
    }

    /// Returns the metric of dropped items; `None` if nothing is exported.
    pub fn dropped(&self) -> Option<Dropped> {
        self.dropped.clone()
    }

    /// Sends the remaining items, for at most 2 s: a silent collector must not delay the end of the process.
    pub async fn shutdown(self) {
        self.export.shutdown(FLUSH).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn losses_are_shown_only_if_something_is_exported() {
        let service = Service {
            name: "app",
            version: "1.2.3",
            host: "replica-7",
        };
        for (endpoint, expected) in [(None, false), (Some("http://127.0.0.1:1"), true)] {
            let telemetry = Telemetry::start(endpoint, service, &Memory::default()).unwrap();
            assert_eq!(telemetry.dropped().is_some(), expected);
            assert_eq!(telemetry.log_records().is_some(), expected);
            assert_eq!(telemetry.tracer().is_on(), expected);
        }
    }
}
