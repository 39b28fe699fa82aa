//! The lifetime of a server: it ends with the run of the tests, also if that is killed.
//!
//! A server ends when its standard input closes. The other end of that pipe is held by `tail`, which waits for the
//! end of one process: the `cargo` that runs the tests, or this process if something else started it.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Seek},
    os::unix::process::{CommandExt, parent_id},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The time limit for a server to become ready.
const START: Duration = Duration::from_secs(120);
/// The number of log lines in an error.
const LINES: usize = 40;

/// Runs the arguments as a command, and kills it when the standard input closes.
pub(super) const UNTIL_INPUT_CLOSES: &str = r#"
exec 3<&0
"$@" 3<&- </dev/null &
server=$!
{ cat <&3; kill -KILL "$server"; } >/dev/null 2>&1 &
watch=$!
wait "$server"
# Another process may get the number of the server that ended.
kill "$watch" 2>/dev/null
"#;
/// Runs the arguments as a command, and removes the folder, which is the name of the script, when it ends.
const THEN_REMOVE: &str = r#""$@"; rm -rf "$0""#;

/// The place of a folder.
#[derive(Clone, Copy)]
pub(super) enum Medium {
    /// Memory if possible. A store may write every change to disk before it responds, which takes seconds on a busy
    /// disk, and the data need not survive.
    Memory,
    /// The disk, for programs, because the memory's file system may not execute any.
    Disk,
}

impl Medium {
    fn path(self) -> PathBuf {
        let memory = Path::new("/dev/shm");
        match self {
            Self::Memory if memory.is_dir() => memory.to_owned(),
            Self::Memory | Self::Disk => env::temp_dir(),
        }
    }
}

/// The folder of one server, named after the process with which it ends.
pub(super) struct Folder {
    path: PathBuf,
    owner: u32,
}

impl Folder {
    /// Returns the folder of this server.
    pub(super) fn of(server: &str, medium: Medium) -> Result<Self> {
        Self::owned_by(owner(), server, medium)
    }

    fn owned_by(owner: u32, server: &str, medium: Medium) -> Result<Self> {
        let name: String = server
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '-' })
            .collect();
        let name = format!("shortener-test-{owner}-{}-{name}", started_at(owner)?);
        let path = medium.path().join(name);
        fs::create_dir_all(&path)
            .with_context(|| format!("the folder {} cannot be created", path.display()))?;
        Ok(Self { path, owner })
    }

    /// Returns the path of a file in the folder.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Waits until no other process starts this server. The lock ends with the returned file.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = File::create(self.path("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Removes the folder of a server that did not start.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Starts a server that ends when its standard input closes.
    pub(super) fn start(&self, server: &Command) -> Result<Running> {
        let log = self.path("log");
        let output = File::create(&log)?;
        // This handle can read the log after the folder is gone.
        let log = File::open(log)?;
        let mut watch = Command::new("tail")
            .args(["--follow", "--sleep-interval=0.2", "/dev/null"])
            .arg(format!("--pid={}", self.owner))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("`tail` cannot be run: install GNU coreutils")?;
        let mut command = Command::new("sh");
        command
            .args(["-c", THEN_REMOVE])
            .arg(&self.path)
            .arg(server.get_program())
            .args(server.get_args())
            .stdin(watch.stdout.take().unwrap())
            .stdout(output.try_clone()?)
            .stderr(output)
            // An interrupt from the keyboard must not reach the server before its end is prepared.
            .process_group(0);
        match command.spawn() {
            Ok(server) => Ok(Running { watch, server, log }),
            Err(error) => {
                watch.kill()?;
                watch.wait()?;
                Err(error).context("`sh` cannot be run")
            }
        }
    }
}

/// A server that is starting.
pub(super) struct Running {
    watch: Child,
    server: Child,
    log: File,
}

impl Running {
    /// Waits until the server is ready: until the function returns a value. It gets the log.
    pub(super) fn ready<T>(mut self, ready: impl Fn(&str) -> Option<T>) -> Result<T> {
        let begin = Instant::now();
        loop {
            // The exit is checked before the log is read, so that the log of a server that ended is complete.
            let ended = self.server.try_wait()?.is_some();
            let log = self.log()?;
            if let Some(value) = ready(&log) {
                return Ok(value);
            }
            if ended || begin.elapsed() > START {
                let how = if ended {
                    "ended"
                } else {
                    "is not ready in time"
                };
                self.stop()?;
                bail!("the server {how}; the end of its log:\n{}", end_of(&log));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Closes the server's standard input, and waits for its end.
    fn stop(&mut self) -> io::Result<()> {
        self.watch.kill()?;
        self.watch.wait()?;
        self.server.wait()?;
        Ok(())
    }

    fn log(&mut self) -> io::Result<String> {
        self.log.rewind()?;
        let mut log = Vec::new();
        self.log.read_to_end(&mut log)?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Returns the process with which servers end. All test programs of one `cargo test` have the same.
fn owner() -> u32 {
    let parent = parent_id();
    let name = fs::read_to_string(format!("/proc/{parent}/comm"));
    match name {
        Ok(name) if name.trim_end() == "cargo" => parent,
        _ => std::process::id(),
    }
}

/// Returns the start time of a process in clock ticks. It distinguishes the process from a later one with the same id.
fn started_at(process: u32) -> Result<String> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    // The name, in parentheses, may have spaces; the start time is the 20th field after it.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
    let time = fields.and_then(|fields| fields.split_whitespace().nth(19));
    time.map(str::to_owned)
        .with_context(|| format!("{path} has no start time: {stat}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command of the shell that ends when its standard input closes.
    fn guarded(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", UNTIL_INPUT_CLOSES, "sh", "sh", "-c", script]);
        command
    }

    fn owner_and_folder(server: &str) -> (Child, Folder) {
        let owner = Command::new("sleep").arg("600").spawn().unwrap();
        let folder = Folder::owned_by(owner.id(), server, Medium::Disk).unwrap();
        (owner, folder)
    }

    fn wait_until(what: &str, done: impl Fn() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < START, "timed out waiting until {what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_server_and_its_folder_end_with_the_process_that_needed_it_even_if_that_is_killed() {
        let (mut owner, folder) = owner_and_folder("killed owner");
        let running = folder.start(&guarded("echo $$; exec sleep 600")).unwrap();
        let process = running
            .ready(|log| Some(log.strip_suffix('\n')?.to_owned()))
            .unwrap();
        let process = format!("/proc/{process}");
        assert!(Path::new(&process).exists() && folder.path.exists());
        owner.kill().unwrap();
        owner.wait().unwrap();
        wait_until("the server has ended", || !Path::new(&process).exists());
        wait_until("its folder is gone", || !folder.path.exists());
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_with_the_end_of_its_log() {
        let (mut owner, folder) = owner_and_folder("ended at once");
        let running = folder.start(&guarded("seq 100; exit 1")).unwrap();
        let error = running.ready(|_| None::<()>).unwrap_err().to_string();
        assert!(error.starts_with("the server ended"), "{error}");
        assert!(
            error.contains("\n61\n") && error.ends_with("\n100"),
            "{error}"
        );
        assert!(!error.contains("\n60\n"), "{error}");
        wait_until("its folder is gone", || !folder.path.exists());
        owner.kill().unwrap();
        owner.wait().unwrap();
    }

    #[test]
    fn one_process_at_a_time_starts_a_server() {
        let (mut owner, folder) = owner_and_folder("locked");
        let lock = folder.lock().unwrap();
        let other = File::open(folder.path("lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(lock);
        // A process that another test has just forked holds the file too, until its `exec`.
        wait_until("the lock is free", || other.try_lock().is_ok());
        folder.remove();
        owner.kill().unwrap();
        owner.wait().unwrap();
    }
}
