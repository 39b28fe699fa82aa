//! The operator's process: arguments, telemetry, then `run` or `crd`.

use std::{error::Error, io::Write, process::ExitCode};

use kube::CustomResourceExt;
use shortener_operator::{
    api::ShortenerStack,
    reference, run,
    settings::{Cli, Command, CrdFormat, Settings},
    telemetry, yaml,
};

fn main() -> ExitCode {
    let command = Cli::read(std::env::args_os())
        .unwrap_or_else(|error| error.exit())
        .command;
    telemetry::init();
    let result = match command {
        Command::Crd { format } => print_crd(format),
        Command::Run(settings) => run_operator(*settings),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %error, "the operator ends");
            ExitCode::FAILURE
        }
    }
}

fn print_crd(format: CrdFormat) -> Result<(), Box<dyn Error>> {
    let text = match format {
        CrdFormat::Yaml => yaml::crd()?,
        CrdFormat::Markdown => reference::markdown(&ShortenerStack::crd()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn run_operator(settings: Settings) -> Result<(), Box<dyn Error>> {
    // Two TLS providers in one build would make the first connection panic unless one is chosen here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run::run(settings))?;
    Ok(())
}
