//! Server processes.

use std::{
    net::{SocketAddr, TcpListener},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::{Settings, cpu};

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

/// A server that answers; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it answers.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a program and waits until it takes connections.
    ///
    /// # Errors
    /// When it does not.
    pub async fn start(mut command: Command, address: SocketAddr) -> Result<Self> {
        let name = command.as_std().get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = child.kill_on_drop(true).spawn();
        let mut server = Self {
            child: child.with_context(|| format!("{} does not start", name.display()))?,
            address,
        };
        let begin = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            let ended = server.child.try_wait()?;
            ensure!(
                ended.is_none() && begin.elapsed() < START,
                "{} does not answer on {address}, see its messages above",
                name.display()
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }

    /// Whether it has not ended yet.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// CPU time so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu(&self) -> Result<Duration> {
        cpu::spent(self.child.id().context("a server has ended")?)
    }
}

/// Waits until a server that answers does what is asked of it: it may still look for what it needs.
///
/// # Errors
/// With the last refusal, when it does not come to it.
pub async fn comes_to(check: impl AsyncFn() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    while let Err(refusal) = check().await {
        if begin.elapsed() > START {
            return Err(refusal);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// An address of this machine that nobody uses.
///
/// # Errors
/// When there is none.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Brings the schema of the app's database up to date.
///
/// # Errors
/// When the app says why it cannot.
pub async fn migrate(settings: &Settings) -> Result<()> {
    let mut migrate = Command::new(&settings.app);
    migrate
        .arg("migrate")
        .env("DATABASE_URL", &settings.database_url)
        .stdout(Stdio::null());
    ensure!(
        migrate.status().await?.success(),
        "the app's migrations failed"
    );
    Ok(())
}

/// The app without rate limits, with more settings.
///
/// # Errors
/// When it does not start.
pub async fn app(settings: &Settings, more: &[(&str, String)]) -> Result<Server> {
    let address = free_address()?;
    let mut app = Command::new(&settings.app);
    // Every contender has what is named here and nothing that the caller's environment may hold.
    app.env_clear()
        .env("DATABASE_URL", &settings.database_url)
        .env("APP_LISTEN", address.to_string())
        .env("APP_INTERNAL_LISTEN", "127.0.0.1:0")
        .env("LIMIT_REQUESTS_PER_SECOND", "0")
        .env("LIMIT_SHORTEN_PER_MINUTE", "0")
        .envs(more.iter().map(|(name, value)| (name, value)));
    Server::start(app, address).await
}

/// A cache with nothing in it.
///
/// # Errors
/// When it does not start.
pub async fn cache() -> Result<Server> {
    let address = free_address()?;
    let mut cache = Command::new("valkey-server");
    cache.args(["--bind", "127.0.0.1", "--save", "", "--port"]);
    cache.arg(address.port().to_string());
    Server::start(cache, address).await
}
