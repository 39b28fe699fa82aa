//! The machine, as far as it explains figures.

use std::{fmt, fs, thread};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its processor.
    processor: String,
    /// The number of its cores.
    cores: usize,
    /// Its memory in GiB.
    memory_gib: u64,
    /// The release of its kernel.
    kernel: String,
}

impl Machine {
    /// Returns this machine. What it does not tell is unknown.
    #[must_use]
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let kilobytes = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name"),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kilobytes >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processor,
            cores,
            memory_gib,
            kernel,
        } = self;
        write!(
            f,
            "{processor}, {cores} cores, {memory_gib} GiB, Linux {kernel}"
        )
    }
}

/// Returns the value of a name in lines of the form `name : value`.
fn value(text: &str, name: &str) -> String {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(found, _)| found.trim() == name);
    let value = values.next().map(|(_, value)| value.trim());
    value.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_name_counts() {
        let text =
            "processor\t: 0\nmodel name\t: A B @ 2.0GHz\nmodel name\t: C\nMemTotal:  1024 kB\n";
        assert_eq!(value(text, "model name"), "A B @ 2.0GHz");
        assert_eq!(value(text, "MemTotal"), "1024 kB");
        assert_eq!(value(text, "name"), "unknown");
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && !machine.kernel.is_empty(), "{machine}");
    }
}
