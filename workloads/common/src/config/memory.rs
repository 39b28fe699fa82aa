//! The setting of the memory limit.

use clap::Args;

use crate::memory::{Memory, TooLow, limit_of_container};

/// The memory of a program.
#[derive(Clone, Copy, Debug, Args)]
pub struct MemoryArgs {
    /// Memory limit of the container in bytes. Everything that waits fits into it. If absent, it is the limit of the
    /// control group, or else 128 MiB.
    #[arg(long, env)]
    pub memory_limit_bytes: Option<u64>,
}

impl MemoryArgs {
    /// Divides the memory among the buffers, except a part in bytes for something else.
    ///
    /// # Errors
    /// Fails if the limit is too low.
    pub fn divide(self, reserved: u64) -> Result<Memory, TooLow> {
        let limit = self.memory_limit_bytes.unwrap_or_else(limit_of_container);
        Memory::within(limit, reserved)
    }
}
