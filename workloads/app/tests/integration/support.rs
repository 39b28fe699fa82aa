//! A running app with its own database, and ways to interrupt the database.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use clap::Parser;
use prometheus_client::metrics::gauge::Gauge;
use shortener_app::{
    code::CodeSpace,
    config::{Cli, Command, ServeArgs},
    metrics::Metrics,
    run::Server,
    state::Observed,
    store::migrate::migrate,
};
use shortener_common::{
    database::{AdmissionMetrics, Database},
    telemetry::Service,
};
use shortener_testing::proxy::Proxy;
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};
use tokio::{sync::oneshot, task::JoinHandle};

/// Returns the defaults with free ports, no rate limits and no drain delay.
pub fn config(database_url: &str) -> ServeArgs {
    let arguments = [
        ("--listen", "127.0.0.1:0"),
        ("--internal-listen", "127.0.0.1:0"),
        ("--management-listen", "127.0.0.1:0"),
        ("--database-url", database_url),
        ("--hostname", "replica-7"),
        ("--public-url", "http://sho.rt:8080/"),
        ("--limit-shorten-per-minute", "0"),
        ("--limit-requests-per-second", "0"),
        ("--drain-delay-seconds", "0"),
    ];
    let arguments = ["app", "serve"].into_iter().chain(
        arguments
            .into_iter()
            .flat_map(|(flag, value)| [flag, value]),
    );
    match Cli::parse_from(arguments).command {
        Command::Serve(args) => *args,
        _ => unreachable!(),
    }
}

/// The identity in the app's exports.
const SERVICE: Service<'_> = Service {
    name: "app",
    version: "0.0.0",
    host: "replica-7",
};

pub fn url_of(options: &PgConnectOptions) -> String {
    options.to_url_lossy().to_string()
}

/// An app that serves in this process.
pub struct App {
    pub public: SocketAddr,
    pub internal: SocketAddr,
    /// The address of the management port; `None` if it is closed.
    pub management: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<bool>,
}

impl App {
    /// Starts an app with a fresh schema and default settings.
    pub async fn start(database: &PgConnectOptions) -> Self {
        Self::start_with(database, |_| {}).await
    }

    pub async fn start_with(
        database: &PgConnectOptions,
        change: impl FnOnce(&mut ServeArgs),
    ) -> Self {
        let config = migrated(database, change).await;
        Self::serve(config, CodeSpace::default()).await
    }

    /// Starts an app with the schema that it finds.
    pub async fn serve_as_it_is(database: &PgConnectOptions) -> Self {
        Self::serve(config(&url_of(database)), CodeSpace::default()).await
    }

    pub async fn serve(config: ServeArgs, space: CodeSpace) -> Self {
        let memory = config.divide_memory().unwrap();
        let telemetry = config.telemetry.start(SERVICE, &memory).unwrap();
        let mut metrics = Metrics::default();
        if let Some(dropped) = telemetry.dropped() {
            metrics.registry.register_collector(Box::new(dropped));
        }
        memory.register(&mut metrics.registry);
        let observed = Observed {
            metrics,
            tracer: telemetry.tracer(),
            memory,
        };
        let server = Server::bind(config, observed, space).await.unwrap();
        let (public, internal) = server.addresses().unwrap();
        let management = server.management_address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async {
            let complete = server.run(async {
                let _ = stopped.await;
            });
            let complete = complete.await;
            telemetry.shutdown().await;
            complete
        });
        Self {
            public,
            internal,
            management,
            stop,
            served,
        }
    }

    /// Starts the shutdown; the handle returns true if every request was finished.
    pub fn stop(self) -> JoinHandle<bool> {
        let _ = self.stop.send(());
        self.served
    }
}

/// Returns access to a database without an app, once it is up.
pub async fn access(database: &PgConnectOptions) -> Database {
    let (up, admission) = (Gauge::default(), AdmissionMetrics::default());
    let access = Database::connect("test", database.clone(), 10, up, &admission);
    access.wait_until_up(Duration::from_secs(30)).await;
    access
}

/// Migrates the schema, and returns the changed settings.
async fn migrated(database: &PgConnectOptions, change: impl FnOnce(&mut ServeArgs)) -> ServeArgs {
    let migration = migrate(database.clone(), Duration::from_secs(30));
    migration.await.unwrap();
    let mut config = config(&url_of(database));
    change(&mut config);
    config
}

/// A lock that blocks every statement on the links, as a slow database would.
pub struct Blocker {
    holder: PgConnection,
    observer: PgConnection,
}

impl Blocker {
    /// Blocks all statements on links.
    pub async fn hold(database: &PgConnectOptions) -> Self {
        Self::lock(database, "BEGIN; LOCK TABLE links IN ACCESS EXCLUSIVE MODE").await
    }

    /// Blocks the statements that change links.
    pub async fn hold_writes(database: &PgConnectOptions) -> Self {
        Self::lock(database, "BEGIN; LOCK TABLE links IN SHARE MODE").await
    }

    /// Blocks the statements that change the link `a1`.
    pub async fn hold_link(database: &PgConnectOptions) -> Self {
        Self::lock(
            database,
            "BEGIN; SELECT FROM links WHERE code = 'a1' FOR UPDATE",
        )
        .await
    }

    /// Blocks the entries of the audit log.
    pub async fn hold_audit(database: &PgConnectOptions) -> Self {
        Self::lock(database, "BEGIN; LOCK TABLE audit_log IN SHARE MODE").await
    }

    async fn lock(database: &PgConnectOptions, statement: &'static str) -> Self {
        let mut holder = database.connect().await.unwrap();
        holder.execute(statement).await.unwrap();
        // Activity is a snapshot within a transaction, so the observation needs another connection.
        Self {
            holder,
            observer: database.connect().await.unwrap(),
        }
    }

    /// Blocks nothing, and observes what others block.
    pub async fn of_nothing(database: &PgConnectOptions) -> Self {
        Self::lock(database, "BEGIN").await
    }

    /// Returns the number of blocked statements.
    pub async fn blocked(&mut self) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let count = sqlx::query_scalar::<_, i64>(waiting);
        count.fetch_one(&mut self.observer).await.unwrap()
    }

    /// Waits until a statement is blocked.
    pub async fn wait_until_blocked(&mut self) {
        while self.blocked().await == 0 {}
    }

    /// Waits until exactly this number of statements is blocked.
    pub async fn wait_for_blocked(&mut self, wanted: i64) {
        let start = Instant::now();
        let mut blocked = self.blocked().await;
        while blocked != wanted {
            let waited = start.elapsed();
            assert!(
                waited < Duration::from_secs(10),
                "{blocked} are blocked, not {wanted}"
            );
            blocked = self.blocked().await;
        }
    }

    pub async fn release(mut self) {
        self.holder.execute("COMMIT").await.unwrap();
    }

    /// Runs a statement before the blocked ones go on, and releases the lock.
    pub async fn release_after(mut self, statement: &'static str) {
        self.holder.execute(statement).await.unwrap();
        self.release().await;
    }
}

/// Starts a proxy in front of the database; returns it and the options to connect through it.
pub async fn proxy_before(database: &PgConnectOptions) -> (Proxy, PgConnectOptions) {
    let proxy = Proxy::before(format!("{}:{}", database.get_host(), database.get_port())).await;
    let (host, port) = (proxy.address.ip().to_string(), proxy.address.port());
    (proxy, database.clone().host(&host).port(port))
}
