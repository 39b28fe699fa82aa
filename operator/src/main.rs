//! The operator's process: parses the command line, then runs the operator or a one-shot command (`crd`, `dlq`).

use std::{error::Error, process::ExitCode};

use shortener_operator::{
    cli::{
        Cli, Command,
        dlq::{self, Dlq},
        process::{exit_code, print_crd, runtime},
        settings::Settings,
    },
    run,
    server::logging,
};

fn main() -> ExitCode {
    let command = Cli::read(std::env::args_os())
        .unwrap_or_else(|error| error.exit())
        .command;
    match command {
        Command::Crd { format } => exit_code(print_crd(format, &mut std::io::stdout())),
        Command::Dlq(command) => exit_code(dead_letters(command)),
        Command::Run(settings) => {
            logging::init();
            match run_operator(*settings) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    tracing::error!(error = %error, "operator failed; the process exits");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn dead_letters(command: Dlq) -> Result<(), Box<dyn Error>> {
    runtime()?.block_on(dlq::run(command, &mut std::io::stdout().lock()))?;
    Ok(())
}

fn run_operator(settings: Settings) -> Result<(), Box<dyn Error>> {
    runtime()?.block_on(run::run(settings))?;
    Ok(())
}
