//! The app, a worker and their stores on this machine, without a cluster: `make dev`.
//!
//! The stores are those of the tests, with a database, a virtual host and a collection of their own. They end with this
//! program, and so does the data.

use std::{env, io, net::TcpListener, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use shortener_testing::{broker::Broker, database::TestDatabase, servers, vector::Collection};
use sqlx::ConnectOptions;
use tokio::{
    process::{Child, Command},
    signal::ctrl_c,
    time::timeout,
};

/// The addresses of the app's public and internal ports, and of the worker's internal one.
const PUBLIC: &str = "127.0.0.1:8080";
const INTERNAL: &str = "127.0.0.1:9090";
const WORKER: &str = "127.0.0.1:9091";
/// The address of the internal port of the sender of webhooks, which runs if `WEBHOOKS` names receivers.
const WEBHOOKS: &str = "127.0.0.1:9092";
/// The time limit for the programs to end. It is longer than that of the app for its requests.
const END: Duration = Duration::from_secs(25);

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let mut program = || arguments.next().context("usage: dev <app> <worker>");
    let (app, worker) = (program()?, program()?);

    eprintln!("==> Start PostgreSQL, RabbitMQ, Valkey and the vector store");
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let documents = Collection::default();
    let (cache, _valkey) = valkey()?;
    let environment = [
        ("DATABASE_URL", database.to_url_lossy().to_string()),
        ("QUEUE_URL", broker.url()),
        ("CACHE_URL", cache),
        ("VECTOR_URL", documents.url()),
        ("VECTOR_API_KEY", documents.key.clone()),
        ("APP_LISTEN", PUBLIC.to_owned()),
        ("APP_INTERNAL_LISTEN", INTERNAL.to_owned()),
        ("WORKER_INTERNAL_LISTEN", WORKER.to_owned()),
        ("WEBHOOKS_INTERNAL_LISTEN", WEBHOOKS.to_owned()),
        (
            "PUBLIC_URL",
            env::var("PUBLIC_URL").unwrap_or(format!("http://{PUBLIC}")),
        ),
        // Nothing routes requests to these programs, so none has to leave before they end.
        ("DRAIN_DELAY_SECONDS", "0".to_owned()),
    ];
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.envs(environment.clone()).kill_on_drop(true);
        command
    };
    let migrated = command(&app).arg("migrate").status().await;
    ensure!(
        migrated.context("cannot run the app")?.success(),
        "the database cannot be prepared: see the log above"
    );
    let _sender = match env::var_os("WEBHOOKS") {
        Some(_) => Some(command(&app).arg("webhooks").spawn()?),
        None => None,
    };
    let mut app = command(&app).spawn().context("cannot run the app")?;
    let mut worker = command(&worker).spawn().context("cannot run the worker")?;
    eprintln!(
        "==> The app answers on http://{PUBLIC}; its metrics are on http://{INTERNAL}/metrics, the worker's on \
         http://{WORKER}/metrics. Ctrl-C ends everything, and the data with it."
    );
    tokio::select! {
        interrupted = ctrl_c() => interrupted?,
        ended = app.wait() => bail!("the app has ended: {}", ended?),
        ended = worker.wait() => bail!("the worker has ended: {}", ended?),
    }
    // The terminal has interrupted them as well.
    let ended = async { (app.wait().await, worker.wait().await) };
    if timeout(END, ended).await.is_err() {
        eprintln!("==> They did not end in time, and are killed");
    }
    Ok(())
}

/// Starts an empty cache; returns its URL.
fn valkey() -> Result<(String, Child)> {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port());
    let port = port.context("no port is free")?.to_string();
    let [program] = servers::VALKEY.addresses()?;
    let server = Command::new(program)
        .args(["--bind", "127.0.0.1", "--save", "", "--port", &port])
        .stdout(io::stderr())
        .kill_on_drop(true)
        .spawn();
    let server = server.context("cannot run Valkey")?;
    Ok((format!("redis://127.0.0.1:{port}"), server))
}
