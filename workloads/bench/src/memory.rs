//! The memory of processes.

use std::fs;

use anyhow::{Context, Result};

/// The memory of a process in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The memory that it has now.
    pub resident: u64,
    /// The highest memory that it ever had.
    pub peak: u64,
}

impl Memory {
    /// Returns the memory of a process.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        Self::parse(&status.context("a server has ended: see its messages above")?)
    }

    fn parse(status: &str) -> Result<Self> {
        let bytes = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            let value = value.and_then(|value| value.trim().strip_suffix(" kB"));
            let kilobytes = value.and_then(|value| value.trim().parse::<u64>().ok());
            kilobytes
                .map(|kilobytes| kilobytes * 1024)
                .with_context(|| format!("the kernel does not tell {name} of a process"))
        };
        Ok(Self {
            resident: bytes("VmRSS:")?,
            peak: bytes("VmHWM:")?,
        })
    }
}

/// Shows bytes as MiB.
#[must_use]
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_read_from_the_status_of_the_process() {
        let status = "Name:\tapp\nVmPeak:\t   90000 kB\nVmHWM:\t   20480 kB\nVmRSS:\t    1536 kB\n";
        let memory = Memory::parse(status).unwrap();
        assert_eq!((memory.resident, memory.peak), (1536 * 1024, 20480 * 1024));
        assert_eq!(mebibytes(memory.resident), "1.5 MiB");
        assert!(Memory::parse("Name:\tapp\n").is_err());
    }

    #[test]
    fn this_process_has_memory() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.resident > 0 && memory.resident <= memory.peak);
    }
}
