//! CPU time of other processes.

use std::{fs, io, path::Path, time::Duration};

use anyhow::{Context, Result};

/// Returns the CPU time of a process and its children so far, including time in the kernel.
///
/// # Errors
/// Fails if the process has ended.
pub fn spent(pid: u32) -> Result<Duration> {
    let mut total = Duration::ZERO;
    let process = format!("/proc/{pid}");
    for thread in fs::read_dir(format!("{process}/task")).context("the process has exited")? {
        let Some((own, children)) = figures(&thread?.path())? else {
            continue;
        };
        // The value of the scheduler in nanoseconds, finer than the clock ticks of `stat`.
        let nanoseconds = own.split_whitespace().next().unwrap_or_default().parse();
        let nanoseconds = nanoseconds.with_context(|| format!("unexpected schedstat: {own}"))?;
        total += Duration::from_nanos(nanoseconds);
        for child in children.split_whitespace() {
            total += spent(child.parse()?)?;
        }
    }
    Ok(total)
}

/// Reads the CPU time and the children of a thread; `None` if it has just ended.
fn figures(thread: &Path) -> io::Result<Option<(String, String)>> {
    let read = |file| fs::read_to_string(thread.join(file));
    let figures = read("schedstat").and_then(|own| Ok((own, read("children")?)));
    match figures {
        Err(error) if is_gone(&error) => Ok(None),
        figures => figures.map(Some),
    }
}

/// Returns true if the thread has ended. Its files vanish first; open ones then fail with `ESRCH`.
fn is_gone(error: &io::Error) -> bool {
    const NO_SUCH_PROCESS: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_PROCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_and_a_process_that_is_gone_is_an_error() {
        let pid = std::process::id();
        let before = spent(pid).unwrap();
        // Threads that start and end meanwhile cause no error.
        while spent(pid).unwrap() < before + Duration::from_millis(5) {
            std::thread::spawn(|| {});
        }
        assert!(spent(u32::MAX).is_err());
    }
}
