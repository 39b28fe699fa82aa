//! Instructions and cache misses of processes, counted by the processor and read by `perf`.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

const EVENTS: [&str; 2] = ["instructions", "cache-misses"];
/// The time limit for `perf` to begin.
const BEGIN: Duration = Duration::from_secs(10);

/// The counts of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Instructions that were carried out.
    pub instructions: u64,
    /// Accesses to memory that no cache had.
    pub cache_misses: u64,
}

/// Returns the reason why nothing can be counted on this machine, if there is one.
pub async fn obstacle() -> Option<String> {
    let tried = perf().arg("true").output().await;
    let counted = match tried {
        Err(error) => Err(anyhow!("`perf` cannot be run, install it: {error}")),
        Ok(output) => Counts::parse(&String::from_utf8_lossy(&output.stderr)),
    };
    counted.err().map(|reason| reason.to_string())
}

/// Counts for these processes while the work is done.
///
/// # Errors
/// Returns the errors of the work, or fails if nothing can be counted.
pub async fn count(pids: &[u32], work: impl Future<Output = Result<()>>) -> Result<Counts> {
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let perf = perf().arg("-p").arg(pids.join(",")).spawn();
    let perf = perf.context("`perf` cannot be run")?;
    let pid = perf.id().context("`perf` has ended at once")?;
    wait_until_counting(pid).await?;
    work.await?;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It prints what it has counted then.
    kill_process(pid.context("`perf` has no number")?, Signal::INT)?;
    let output = perf.wait_with_output().await?;
    Counts::parse(&String::from_utf8_lossy(&output.stderr))
}

fn perf() -> Command {
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-e", &EVENTS.join(",")])
        // The names of the events and the numbers are the same everywhere then.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    perf
}

/// Waits until `perf` has opened its counters.
async fn wait_until_counting(perf: u32) -> Result<()> {
    let begin = Instant::now();
    while !counts(perf) {
        ensure!(
            begin.elapsed() < BEGIN,
            "`perf` does not begin to count: try `perf stat -p` with a process of yours"
        );
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Returns true if a process has opened a counter.
fn counts(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    let targets = files.into_iter().flatten().flatten();
    targets
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| target.as_os_str() == "anon_inode:[perf_event]")
}

impl Counts {
    /// Parses what `perf stat -x ,` prints: in each line the value, its unit, the name of the event, and more.
    fn parse(output: &str) -> Result<Self> {
        let value = |event: &str| {
            let mut lines = output.lines().map(|line| line.split(','));
            let value = lines.find_map(|mut fields| {
                let (value, _unit) = (fields.next()?, fields.next()?);
                fields.next()?.contains(event).then_some(value)
            });
            match value.map(str::parse::<u64>) {
                Some(Ok(value)) => Ok(value),
                Some(Err(_)) => bail!(
                    "the processor does not count {event}; a virtual machine often hides its counters"
                ),
                None => bail!("`perf` does not count {event}: {}", output.trim()),
            }
        };
        let [instructions, cache_misses] = EVENTS;
        Ok(Self {
            instructions: value(instructions)?,
            cache_misses: value(cache_misses)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_the_names_of_their_events() {
        let output = "81002,,cache-misses:u,1034,100.00,,\n5120331,,instructions:u,1034,100.00,1.2,insn per cycle\n";
        let counts = Counts::parse(output).unwrap();
        assert_eq!(
            (counts.instructions, counts.cache_misses),
            (5_120_331, 81_002)
        );
    }

    #[test]
    fn what_cannot_be_counted_is_an_error_that_names_it() {
        let unsupported =
            "<not supported>,,instructions,0,100.00,,\n<not supported>,,cache-misses,0,100.00,,\n";
        for (output, expected) in [
            (unsupported, "the processor does not count instructions"),
            ("", "`perf` does not count instructions"),
            (
                "Error: Access to performance monitoring is limited.\n",
                "Access",
            ),
        ] {
            let error = Counts::parse(output).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
