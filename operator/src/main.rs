//! The operator's process: arguments, telemetry, then `run` or `crd`.

use std::{error::Error, io::Write, process::ExitCode};

use shortener_operator::{
    run,
    settings::{Cli, Command, Settings},
    telemetry, yaml,
};

fn main() -> ExitCode {
    let command = Cli::read(std::env::args_os())
        .unwrap_or_else(|error| error.exit())
        .command;
    telemetry::init();
    let result = match command {
        Command::Crd => print_crd(),
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

fn print_crd() -> Result<(), Box<dyn Error>> {
    std::io::stdout().write_all(yaml::crd()?.as_bytes())?;
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
