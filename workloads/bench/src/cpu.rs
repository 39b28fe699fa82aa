//! CPU time of other processes.

use std::{fs, io, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};

/// Makes sure that the kernel counts the CPU time of threads. Some kernels have no files for it, or zeros in them.
///
/// # Errors
/// Fails if it does not.
pub fn check() -> Result<()> {
    let own = spent_alone(std::process::id())?;
    ensure!(!own.is_zero(), NOT_COUNTED);
    Ok(())
}

/// Returns the CPU time of a process and its children so far, including time in the kernel. Children that have ended do
/// not count.
///
/// # Errors
/// Fails if the process has ended.
pub fn spent(pid: u32) -> Result<Duration> {
    let family = Process::family(pid)?;
    Ok(family.iter().map(|(_, process)| process.spent).sum())
}

/// Returns the CPU time of a process without its children.
///
/// # Errors
/// Fails if the process has ended.
pub fn spent_alone(pid: u32) -> Result<Duration> {
    Ok(Process::read(pid)?.context(ENDED)?.spent)
}

/// Returns a process and all processes that it started, itself or through others.
///
/// # Errors
/// Fails if the process has ended.
pub fn family(pid: u32) -> Result<Vec<u32>> {
    let family = Process::family(pid)?;
    Ok(family.into_iter().map(|(pid, _)| pid).collect())
}

const ENDED: &str = "a server has ended: see its messages above";
const NOT_COUNTED: &str = "this kernel does not tell the CPU time and the children of threads: it has to be compiled with \
    CONFIG_SCHED_INFO and CONFIG_PROC_CHILDREN";

/// The state of a process.
struct Process {
    spent: Duration,
    children: Vec<u32>,
}

impl Process {
    /// Reads a process and its children, and theirs.
    fn family(pid: u32) -> Result<Vec<(u32, Self)>> {
        let mut family = vec![(pid, Self::read(pid)?.context(ENDED)?)];
        let mut place = 0;
        while let Some((_, process)) = family.get(place) {
            for child in process.children.clone() {
                // It may have ended since its parent was read.
                if let Some(process) = Self::read(child)? {
                    family.push((child, process));
                }
            }
            place += 1;
        }
        Ok(family)
    }

    /// Reads the state of a process; `None` if it has ended.
    fn read(pid: u32) -> Result<Option<Self>> {
        let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
            Err(error) if is_gone(&error) => return Ok(None),
            threads => threads?,
        };
        let mut process = Self {
            spent: Duration::ZERO,
            children: Vec::new(),
        };
        for thread in threads {
            match thread {
                Err(error) if is_gone(&error) => return Ok(None),
                thread => process.add(&thread?.path())?,
            }
        }
        Ok(Some(process))
    }

    /// Adds the CPU time and the children of a thread, unless it has just ended.
    fn add(&mut self, thread: &Path) -> Result<()> {
        let read = |file| fs::read_to_string(thread.join(file));
        let figures = read("schedstat").and_then(|own| Ok((own, read("children")?)));
        let (own, children) = match figures {
            // The kernel may have no such file: then the thread is still there.
            Err(error) if is_gone(&error) && !thread.exists() => return Ok(()),
            figures => figures.context(NOT_COUNTED)?,
        };
        // The value of the scheduler in nanoseconds, finer than the clock ticks of `stat`.
        let nanoseconds = own.split_whitespace().next().unwrap_or_default().parse();
        let nanoseconds = nanoseconds.with_context(|| format!("unexpected schedstat: {own}"))?;
        self.spent += Duration::from_nanos(nanoseconds);
        for child in children.split_whitespace() {
            self.children.push(child.parse()?);
        }
        Ok(())
    }
}

/// Returns true if the process or thread has ended. Its files vanish first; open ones then fail with `ESRCH`.
fn is_gone(error: &io::Error) -> bool {
    const NO_SUCH_PROCESS: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_PROCESS)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::CommandExt, process::Command};

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    #[test]
    fn work_costs_cpu_time_and_a_process_that_is_gone_is_an_error() {
        let pid = std::process::id();
        let before = spent_alone(pid).unwrap();
        // Threads that start and end meanwhile cause no error.
        while spent_alone(pid).unwrap() < before + Duration::from_millis(5) {
            std::thread::spawn(|| {});
        }
        assert!(spent(u32::MAX).is_err());
        assert!(spent_alone(u32::MAX).is_err());
    }

    #[test]
    fn a_thread_without_the_figures_is_an_error_unless_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process {
            spent: Duration::ZERO,
            children: Vec::new(),
        };
        process.add(&folder.path().join("ended")).unwrap();
        fs::write(folder.path().join("schedstat"), "1 2 3").unwrap();
        let error = process.add(folder.path()).unwrap_err().to_string();
        assert!(error.contains("CONFIG_PROC_CHILDREN"), "{error}");
        fs::write(folder.path().join("children"), "7 8").unwrap();
        process.add(folder.path()).unwrap();
        assert_eq!((process.spent.as_nanos(), process.children.len()), (1, 2));
    }

    #[test]
    fn children_count_unless_the_process_is_measured_alone() {
        let mut parent = Command::new("sh")
            .args(["-c", "head --bytes=100G /dev/zero >/dev/null & wait"])
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = parent.id();
        let child = || {
            let all = spent(pid).unwrap();
            all.saturating_sub(spent_alone(pid).unwrap())
        };
        while child() < Duration::from_millis(5) {}
        assert_eq!(family(pid).unwrap().len(), 2);
        assert_eq!(family(pid).unwrap()[0], pid);
        let group = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
        parent.wait().unwrap();
    }
}
