//! Server processes.

use std::{
    io::{self, Read},
    net::{SocketAddr, TcpListener},
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use shortener_testing::servers;
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::cpu;

/// The time limit for a server to start.
const START: Duration = Duration::from_secs(60);
/// The interval at which a server that starts is looked at. It bounds the precision of the time of a start.
const LOOK: Duration = Duration::from_millis(1);
/// The time limit for a server that is asked to end.
const END: Duration = Duration::from_secs(10);
/// The number of bytes of a log that are read at once, as many as a pipe holds.
const LOG_AT_ONCE: usize = 64 * 1024;

/// The memory of the cache in bytes, in a stack where the spec says nothing.
pub const CACHE_MEMORY: u64 = 128 * 1024 * 1024;

/// The end of a server.
pub enum End {
    Kill,
    /// It is asked to end: a killed nginx leaves its workers behind, and a killed app that counts its branches for a
    /// profile does not write them down.
    Ask {
        /// The folder of its configuration, if it has one, which is removed then.
        _folder: Option<TempDir>,
    },
}

/// A running server, which ends when it is dropped.
pub struct Server {
    child: Child,
    /// The address of the server.
    pub address: SocketAddr,
    end: End,
}

impl Server {
    /// Starts a program and waits until it accepts connections.
    ///
    /// # Errors
    /// Fails if it does not.
    pub async fn start(
        mut command: Command,
        address: SocketAddr,
        stdout: Stdio,
        end: End,
    ) -> Result<Arc<Self>> {
        let name = command.as_std().get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(stdout);
        let child = child.kill_on_drop(true).spawn();
        let mut server = Self {
            child: child.with_context(|| format!("cannot start {}", name.display()))?,
            address,
            end,
        };
        let begin = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            ensure!(
                server.runs() && begin.elapsed() < START,
                "{} does not accept connections on {address}: see its messages above",
                name.display()
            );
            sleep(LOOK).await;
        }
        Ok(Arc::new(server))
    }

    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the number of its process.
    ///
    /// # Errors
    /// Fails if the server has ended.
    pub fn pid(&self) -> Result<u32> {
        let pid = self.child.id();
        pid.context("a server has ended: see its messages above")
    }

    /// Returns the CPU time so far.
    ///
    /// # Errors
    /// Fails if the server has ended.
    pub fn cpu(&self) -> Result<Duration> {
        cpu::spent(self.pid()?)
    }

    /// Asks the server to end; returns true if it was asked.
    fn ask(&self) -> bool {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw);
        pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.end, End::Ask { .. }) || !self.ask() {
            return;
        }
        let begin = Instant::now();
        while self.runs() && begin.elapsed() < END {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns a pipe as standard output. A thread reads it, as the runtime of a container reads a log, and drops what it
/// reads.
///
/// # Errors
/// Fails if there is no pipe.
pub fn log_that_is_read() -> Result<Stdio> {
    let (mut log, output) = io::pipe()?;
    thread::spawn(move || {
        let mut lines = vec![0; LOG_AT_ONCE];
        while log.read(&mut lines).is_ok_and(|read| read > 0) {}
    });
    Ok(output.into())
}

/// Waits until a check of a server succeeds, because the server may still be connecting to its backends.
///
/// # Errors
/// Returns the last error of the check after the time limit.
pub async fn wait_until_ok(check: impl AsyncFn() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    while let Err(refusal) = check().await {
        if begin.elapsed() > START {
            return Err(refusal);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Returns a free address of this machine.
///
/// # Errors
/// Fails if there is none.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Starts an empty cache with this memory in bytes. When it is full, it forgets as a stack's cache does.
///
/// # Errors
/// Fails if it does not start.
pub async fn cache(memory: u64) -> Result<Arc<Server>> {
    let address = free_address()?;
    let [program] = servers::VALKEY.addresses()?;
    let mut cache = Command::new(program);
    cache.args(["--bind", "127.0.0.1", "--save", "", "--port"]);
    cache.arg(address.port().to_string());
    cache.args(["--maxmemory", &memory.to_string()]);
    cache.args(["--maxmemory-policy", "allkeys-lfu"]);
    Server::start(cache, address, Stdio::null(), End::Kill).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a program that writes this many bytes to its standard output, and ends.
    fn writing(bytes: usize) -> Command {
        let mut command = Command::new("head");
        command.arg(format!("--bytes={bytes}")).arg("/dev/zero");
        command
    }

    #[tokio::test]
    async fn a_program_never_waits_for_the_reader_of_its_log() {
        let mut program = writing(10 * LOG_AT_ONCE);
        program.stdout(log_that_is_read().unwrap());
        assert!(program.status().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_program_that_ends_at_once_is_an_error_with_its_name() {
        let address = free_address().unwrap();
        let started = Server::start(writing(0), address, Stdio::null(), End::Kill).await;
        let error = started.err().unwrap().to_string();
        assert!(error.starts_with("head does not accept"), "{error}");
    }
}
