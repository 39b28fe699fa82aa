//! `kubectl shortener`: the commands for people, as a plugin of kubectl.

use std::process::ExitCode;

use clap::Parser;
use shortener_operator::cli::{
    kubectl::{self, Plugin},
    process,
};

fn main() -> ExitCode {
    match Plugin::try_parse() {
        Ok(plugin) => {
            kubectl::run(plugin.command).unwrap_or_else(|error| process::exit_code(Err(error)))
        }
        Err(error) => process::explain(&error),
    }
}
