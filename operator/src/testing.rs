//! Helpers for this crate's tests.

pub mod api_server;
pub mod app;
pub mod broker;
pub mod collector;
pub mod gateway;
pub mod management;
pub mod network;
pub mod rehearsal;
pub mod servers;
#[path = "../core/src/testing/shared.rs"]
pub mod shared;
pub mod world;

use crate::cli::{Cli, Command, settings::Settings};

/// Returns the operator's settings with only the required flags.
pub fn settings() -> Settings {
    let arguments = [
        "operator",
        "--pod-name",
        "op-0",
        "--pod-namespace",
        "operators",
    ];
    match Cli::read(arguments.map(Into::into)).unwrap().command {
        Command::Run(settings) => *settings,
        Command::Crd { .. } | Command::Plan(_) => panic!("not the run command"),
    }
}
