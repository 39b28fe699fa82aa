//! CPU time of other processes.

use std::{fs, io, path::Path, time::Duration};

use anyhow::{Context, Result};

/// CPU time that a process and its children have spent so far, kernel included.
///
/// # Errors
/// When the process is gone.
pub fn spent(pid: u32) -> Result<Duration> {
    let mut total = Duration::ZERO;
    let process = format!("/proc/{pid}");
    for thread in fs::read_dir(format!("{process}/task")).context("the process has ended")? {
        let Some((own, children)) = figures(&thread?.path())? else {
            continue;
        };
        // The scheduler's own figure in nanoseconds, finer than the clock ticks of `stat`.
        let nanoseconds = own.split_whitespace().next().unwrap_or_default().parse();
        let nanoseconds = nanoseconds.with_context(|| format!("unexpected schedstat: {own}"))?;
        total += Duration::from_nanos(nanoseconds);
        for child in children.split_whitespace() {
            total += spent(child.parse()?)?;
        }
    }
    Ok(total)
}

/// What the kernel tells of a thread; nothing of one that has just ended.
fn figures(thread: &Path) -> io::Result<Option<(String, String)>> {
    let read = |file| fs::read_to_string(thread.join(file));
    let figures = read("schedstat").and_then(|own| Ok((own, read("children")?)));
    match figures {
        Err(error) if is_gone(&error) => Ok(None),
        figures => figures.map(Some),
    }
}

/// Its files go first, then the process behind those that are open.
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
        // Threads that come and go meanwhile are no error.
        while spent(pid).unwrap() < before + Duration::from_millis(5) {
            std::thread::spawn(|| {});
        }
        assert!(spent(u32::MAX).is_err());
    }
}
