//! A Redis server for one test, and ways to break it.

use std::{
    net::TcpListener as StdListener,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use prometheus_client::registry::Registry;
use redis::{AsyncConnectionConfig, FromRedisValue, RedisResult, aio::MultiplexedConnection};
use shortener_app::{
    config::{CacheMode, ServeArgs},
    metrics::CacheMetrics,
    store::cache::{Cache, source::Source},
};
use shortener_testing::servers;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout},
    time::sleep,
};

use crate::support::config;

/// A deadline for tests that are not about deadlines: a busy machine must not look like a broken cache.
pub const PATIENT: Duration = Duration::from_secs(10);

/// A server that ends with the test.
pub struct Redis {
    pub port: u16,
    arguments: Vec<String>,
    directory: PathBuf,
    child: Child,
}

impl Redis {
    /// Starts a server with the defaults.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more arguments.
    pub async fn start_with(arguments: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("shortener-cache-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        // Another program may take the port before the server does.
        for _ in 0..20 {
            let port = free_port();
            if let Some(child) = spawn(port, &arguments, &directory).await {
                return Self {
                    port,
                    arguments,
                    directory,
                    child,
                };
            }
        }
        panic!("valkey-server does not start");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Configures an app to use this server.
    pub fn configure(&self, config: &mut ServeArgs) {
        config.cache.cache_url = Some(self.url());
        config.cache.cache_timeout = PATIENT;
    }

    /// Kills the process.
    pub async fn stop(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Starts the server again, empty.
    pub async fn restart(&mut self) {
        self.child = spawn(self.port, &self.arguments, &self.directory)
            .await
            .unwrap();
    }

    /// Freezes the process: connections stay open, and no command is answered.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success());
    }

    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        self.try_ask(command).await.unwrap()
    }

    pub async fn try_ask<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let mut built = redis::cmd(command[0]);
        built.arg(&command[1..]);
        built.query_async(&mut connect(&self.url()).await?).await
    }

    /// Returns the value of `link:<code>`.
    pub async fn link(&self, code: &str) -> Option<String> {
        self.ask(&["GET", &format!("link:{code}")]).await
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns the cache of an app with this server, once it is up.
pub async fn connected(server: &Redis, deadline: Duration) -> Cache {
    connected_to(server.url(), CacheMode::Single, deadline).await
}

pub async fn connected_to(url: String, mode: CacheMode, deadline: Duration) -> Cache {
    let mut settings = config("postgres://nobody@127.0.0.1:1/none").cache;
    settings.cache_url = Some(url);
    settings.cache_mode = mode;
    settings.cache_timeout = deadline;
    let source = Source::new(&settings).unwrap().unwrap();
    let metrics = CacheMetrics::register(&mut Registry::default());
    let cache = Cache::start(source, &settings, metrics);
    until(true, || async { cache.connection().is_up() }).await;
    cache
}

async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    // Overrides the timeouts of the library as well, which are half a second.
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENT))
        .set_response_timeout(Some(PATIENT));
    redis::Client::open(url)?
        .get_multiplexed_async_connection_with_config(&patient)
        .await
}

pub fn free_port() -> u16 {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts a server that accepts connections; `None` if it ended instead.
async fn spawn(port: u16, arguments: &[String], directory: &std::path::Path) -> Option<Child> {
    let [program] = servers::VALKEY
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    let mut child = tokio::process::Command::new(program)
        .args(arguments.first().filter(|first| !first.starts_with("--")))
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(directory)
        .args(
            arguments
                .iter()
                .filter(|argument| !argument.ends_with(".conf")),
        )
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = log_says(&mut log, &["Ready to accept connections", "Sentinel ID is"]).await;
    // The server must never wait for a reader of its log.
    tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
    ready.then_some(child)
}

async fn log_says(log: &mut Lines<BufReader<ChildStdout>>, texts: &[&str]) -> bool {
    while let Ok(Some(line)) = log.next_line().await {
        if texts.iter().any(|text| line.contains(text)) {
            return true;
        }
    }
    false
}

/// The reaction of a broken cache to each command.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// No response.
    Silence,
    /// Bytes of another protocol.
    Noise,
    /// A number as the response to every command.
    Numbers,
    /// A closed connection.
    HangUp,
}

/// Starts a cache with this fault; returns its URL.
pub async fn broken(fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    let answer: &[u8] = match fault {
                        Fault::Silence => continue,
                        Fault::Noise => b"HTTP/1.1 400 Bad Request\r\n\r\n",
                        Fault::Numbers => b":1\r\n:1\r\n:1\r\n:1\r\n",
                        Fault::HangUp => return,
                    };
                    let _ = stream.write_all(answer).await;
                }
            });
        }
    });
    format!("redis://{address}")
}

/// Starts a cache whose responses are all delayed; returns its URL.
pub async fn late(server: &Redis, by: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = ("127.0.0.1", server.port);
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(upstream).await.unwrap();
            tokio::spawn(carry_late(client, server, by));
        }
    });
    format!("redis://{address}")
}

async fn carry_late(client: TcpStream, server: TcpStream, by: Duration) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let questions = tokio::io::copy(&mut from_client, &mut to_server);
    let answers = async {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            sleep(by).await;
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(questions, answers).0.ok();
}

/// Repeats the query until the answer is this one.
pub async fn until<T: PartialEq + std::fmt::Debug, F: Future<Output = T>>(
    wanted: T,
    ask: impl Fn() -> F,
) {
    let start = Instant::now();
    loop {
        let answer = ask().await;
        if answer == wanted {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "timed out waiting for {wanted:?}: {answer:?}"
        );
        sleep(Duration::from_millis(5)).await;
    }
}
