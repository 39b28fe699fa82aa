//! The link-shortening application.

use std::process::ExitCode;

fn main() -> ExitCode {
    shortener_app::program::run(Vec::new())
}
