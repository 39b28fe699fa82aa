//! What the programs have in common: how they begin, how they end, and what is seen of them meanwhile.

use std::{future::Future, process::ExitCode};

use prometheus_client::collector::Collector;

use crate::{
    config::{LogArgs, TelemetryArgs},
    logging::Logging,
    telemetry::{Service, Telemetry, span::Tracer},
};

/// Does the work of a program; what stops it is told on standard error.
pub async fn run(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    // With two providers linked in, TLS panics unless one was named; a dependency may bring a second at any time.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match work.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The log of a program and the export of its traces.
pub struct Observed {
    telemetry: Telemetry,
    log: Logging,
}

impl Observed {
    /// Begins both.
    ///
    /// # Errors
    /// When a setting is malformed.
    pub fn start(
        name: &'static str,
        version: &'static str,
        log: &LogArgs,
        telemetry: &TelemetryArgs,
    ) -> anyhow::Result<Self> {
        let host = &log.host();
        let service = Service {
            name,
            version,
            host,
        };
        let telemetry = telemetry.start(service)?;
        let log = log.start(telemetry.log_records())?;
        Ok(Self { telemetry, log })
    }

    /// What makes the spans of the program.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        self.telemetry.tracer()
    }

    /// The metrics of what never got out.
    #[must_use]
    pub fn losses(&self) -> Vec<Box<dyn Collector>> {
        let mut losses: Vec<Box<dyn Collector>> = vec![Box::new(self.log.dropped_lines())];
        if let Some(dropped) = self.telemetry.dropped() {
            losses.push(Box::new(dropped));
        }
        losses
    }

    /// Lets out what waits. Everything before may leave spans and log lines, so this comes last.
    pub async fn end(self) {
        self.telemetry.shutdown().await;
    }
}
