//! The link-shortening application.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator. It gives the memory of a burst of requests back to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    shortener_app::program::run(Vec::new())
}
