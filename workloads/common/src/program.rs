//! The parts that all programs share: start, exit code, log and telemetry.

use std::{future::Future, process::ExitCode};

use prometheus_client::collector::Collector;

use crate::{
    backends::Unusable,
    config::{LogArgs, TelemetryArgs},
    logging::Logging,
    memory::Memory,
    telemetry::{Service, Telemetry, span::Tracer},
};

/// Runs a program. Prints the error that stopped it to standard error. If that was a fault of a store, its word is the
/// last line: the operator finds it in the status of the pod.
pub async fn run(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    // With two crypto providers linked in, TLS panics unless one is chosen, and a dependency may add a second at
    // any time.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match work.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            let unusable = error.downcast_ref::<Unusable>();
            if let Some(fault) = unusable.and_then(|unusable| unusable.fault) {
                eprintln!("{}", fault.as_str());
            }
            ExitCode::FAILURE
        }
    }
}

/// The log of a program and the export of its telemetry.
pub struct Observed {
    telemetry: Telemetry,
    log: Logging,
}

impl Observed {
    /// Starts the export and the log within this memory.
    ///
    /// # Errors
    /// Fails if a setting is malformed.
    pub fn start(
        name: &'static str,
        version: &'static str,
        log: &LogArgs,
        telemetry: &TelemetryArgs,
        memory: &Memory,
    ) -> anyhow::Result<Self> {
        let host = &log.host();
        let service = Service {
            name,
            version,
            host,
        };
        let telemetry = telemetry.start(service, memory)?;
        let log = log.start(telemetry.log_records(), memory)?;
        Ok(Self { telemetry, log })
    }

    /// Returns the tracer of the program.
    pub fn tracer(&self) -> Tracer {
        self.telemetry.tracer()
    }

    /// Returns the metrics of log lines, spans and log records that were lost.
    pub fn losses(&self) -> Vec<Box<dyn Collector>> {
        let mut losses: Vec<Box<dyn Collector>> = vec![Box::new(self.log.dropped_lines())];
        if let Some(dropped) = self.telemetry.dropped() {
            losses.push(Box::new(dropped));
        }
        losses
    }

    /// Exports the remaining spans and log records. Call this last, because every other step may produce more of
    /// them.
    pub async fn end(self) {
        self.telemetry.shutdown().await;
    }
}
