//! Server processes.

use std::{
    net::{SocketAddr, TcpListener},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use shortener_testing::servers;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::{Settings, cpu};

/// The time limit for a server to start.
const START: Duration = Duration::from_secs(60);

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// The address of the server.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a program and waits until it accepts connections.
    ///
    /// # Errors
    /// Fails if it does not.
    pub async fn start(mut command: Command, address: SocketAddr) -> Result<Self> {
        let name = command.as_std().get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = child.kill_on_drop(true).spawn();
        let mut server = Self {
            child: child.with_context(|| format!("cannot start {}", name.display()))?,
            address,
        };
        let begin = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            let ended = server.child.try_wait()?;
            ensure!(
                ended.is_none() && begin.elapsed() < START,
                "{} does not accept connections on {address}: see its messages above",
                name.display()
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }

    /// Returns true if the server has not ended.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the CPU time so far.
    ///
    /// # Errors
    /// Fails if the server has ended.
    pub fn cpu(&self) -> Result<Duration> {
        cpu::spent(self.child.id().context("a server has exited")?)
    }
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

/// Migrates the schema of the app's database.
///
/// # Errors
/// Fails if the migration fails.
pub async fn migrate(settings: &Settings) -> Result<()> {
    let [database_url] = servers::DATABASE.addresses()?;
    let mut migrate = Command::new(&settings.app);
    migrate
        .arg("migrate")
        .env("DATABASE_URL", database_url)
        .stdout(Stdio::null());
    ensure!(
        migrate.status().await?.success(),
        "`app migrate` failed: see its message above"
    );
    Ok(())
}

/// Starts the app without rate limits, with more settings.
///
/// # Errors
/// Fails if it does not start.
pub async fn app(settings: &Settings, more: &[(&str, String)]) -> Result<Server> {
    let address = free_address()?;
    let [database_url] = servers::DATABASE.addresses()?;
    let mut app = Command::new(&settings.app);
    // Every contender has only these settings, and nothing from the caller's environment.
    app.env_clear()
        .env("DATABASE_URL", database_url)
        .env("APP_LISTEN", address.to_string())
        .env("APP_INTERNAL_LISTEN", "127.0.0.1:0")
        .env("LIMIT_REQUESTS_PER_SECOND", "0")
        .env("LIMIT_SHORTEN_PER_MINUTE", "0")
        .envs(more.iter().map(|(name, value)| (name, value)));
    Server::start(app, address).await
}

/// Starts an empty cache.
///
/// # Errors
/// Fails if it does not start.
pub async fn cache() -> Result<Server> {
    let address = free_address()?;
    let [program] = servers::VALKEY.addresses()?;
    let mut cache = Command::new(program);
    cache.args(["--bind", "127.0.0.1", "--save", "", "--port"]);
    cache.arg(address.port().to_string());
    Server::start(cache, address).await
}
