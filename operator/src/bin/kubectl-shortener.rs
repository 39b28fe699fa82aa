//! `kubectl shortener`: the commands for people, as a plugin of kubectl.

use std::process::ExitCode;

use clap::Parser;
use shortener_operator::cli::{
    kubectl::{self, Plugin},
    process,
};

fn main() -> ExitCode {
    process::exit_code(kubectl::run(Plugin::parse().command))
}
