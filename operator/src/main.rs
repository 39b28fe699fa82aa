//! The operator's process: parses the command line, then runs the operator or a one-shot command (`crd`, `dlq`,
//! `plan`).

use std::{error::Error, io::Write, process::ExitCode};

use shortener_operator::{
    cli::{
        Cli, Command, CrdFormat,
        dlq::{self, Dlq},
        plan::{self, PlanArguments, PlanOutcome},
        settings::Settings,
    },
    run,
    server::logging,
};
use shortener_operator_core::definition;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let command = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli.command,
        Err(error) => return explain(&error),
    };
    match command {
        Command::Crd { format } => exit_code(print_crd(format)),
        Command::Dlq(command) => exit_code(dead_letters(command)),
        Command::Plan(arguments) => match make_plan(arguments) {
            Ok(outcome) => outcome.into(),
            Err(error) => exit_code(Err(error)),
        },
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

/// Prints what is wrong with the command line, or the help that it asks for. The exit code of an error is not clap's 2,
/// which is an answer of `plan`.
fn explain(error: &clap::Error) -> ExitCode {
    // A failed write cannot be reported anywhere.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn exit_code(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A failed write to stderr cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_crd(format: CrdFormat) -> Result<(), Box<dyn Error>> {
    let text = match format {
        CrdFormat::Yaml => definition::yaml()?,
        CrdFormat::Markdown => definition::markdown(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn dead_letters(command: Dlq) -> Result<(), Box<dyn Error>> {
    runtime()?.block_on(dlq::run(command, &mut std::io::stdout().lock()))?;
    Ok(())
}

fn make_plan(arguments: PlanArguments) -> Result<PlanOutcome, Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    Ok(runtime()?.block_on(plan::run(arguments, &mut out))?)
}

fn run_operator(settings: Settings) -> Result<(), Box<dyn Error>> {
    runtime()?.block_on(run::run(settings))?;
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    // With two TLS providers in one build the first connection would panic unless one is chosen here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Builder::new_multi_thread().enable_all().build()
}
