//! The operator's process: parses the command line, then runs the operator or a one-shot command (`crd`, `plan`).

use std::{error::Error, process::ExitCode};

use mimalloc::MiMalloc;
use shortener_operator::{
    cli::{
        Cli, Command,
        plan::{self, PlanArguments, PlanOutcome},
        process::{exit_code, explain, output, print_crd, runtime},
        settings::Settings,
    },
    run,
    server::logging,
};

/// The allocator. It gives the memory of stacks that are gone back to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let command = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli.command,
        Err(error) => return explain(&error),
    };
    match command {
        Command::Crd { format } => exit_code(print_crd(format, &mut output())),
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

fn make_plan(arguments: PlanArguments) -> Result<PlanOutcome, Box<dyn Error>> {
    runtime()?.block_on(plan::run(arguments, &mut output()))
}

fn run_operator(settings: Settings) -> Result<(), Box<dyn Error>> {
    runtime()?.block_on(run::run(settings))?;
    Ok(())
}
