//! The links of a managed database move to one that the real CloudNativePG runs, and back by the commands of the page.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Provider, Space, Stack, Writer, await_condition, await_within, commands,
    kubectl, paste, psql, settled, small, with_env,
};
use tokio::{sync::watch, task::JoinHandle};

/// Links that are in the cache while the database takes no writes.
const CACHED: usize = 10;
/// A time that only a move which does not end exceeds.
const PATIENCE: Duration = Duration::from_secs(600);

fn spec() -> Value {
    let backup = json!({"schedule": "@yearly", "volume": {"storage": "256Mi"}});
    // On a busy machine the cache may need more than 100 ms, and a redirect then asks the database, which may be away.
    let patient = json!([{"name": "CACHE_TIMEOUT_SECONDS", "value": "5"}]);
    json!({
        "profiles": ["caching", "queue"],
        "app": with_env("app", &patient),
        "database": {"managed": {"storage": "100Mi"}, "backup": backup},
    })
}

/// The results of the redirects from the cache.
#[derive(Default)]
struct Redirects {
    answered: usize,
    /// Those of the answered ones that were asked for while the database took no writes.
    answered_meanwhile: usize,
    failed: Vec<String>,
}

/// Clients that redirect from the cache, and one that measures the longest time without a new link.
struct Clients {
    stop: watch::Sender<bool>,
    readers: JoinHandle<Redirects>,
    gap: JoinHandle<Duration>,
}

impl Clients {
    async fn start(gateway: &GatewayClient) -> Result<Self> {
        let mut cached = Vec::new();
        for number in 0..CACHED {
            let url = format!("https://example.com/cached/{number}");
            let code = gateway.shorten(&url).await?;
            gateway.wait_until_redirects(&code, &url).await?;
            cached.push((code, url));
        }
        let (stop, stopped) = watch::channel(false);
        let (reader, ended) = (gateway.clone(), stopped.clone());
        // True from a refused write on until the next one is accepted.
        let refused = Arc::new(AtomicBool::new(false));
        let refuses = refused.clone();
        let readers = tokio::spawn(async move {
            let mut seen = Redirects::default();
            while !*ended.borrow() {
                for (code, url) in &cached {
                    let meanwhile = refuses.load(Relaxed);
                    match reader.assert_redirects(code, url).await {
                        Ok(()) => {
                            seen.answered += 1;
                            seen.answered_meanwhile += usize::from(meanwhile);
                        }
                        Err(error) => seen.failed.push(format!("{error:#}")),
                    }
                }
            }
            seen
        });
        let writer = gateway.clone();
        let gap = tokio::spawn(async move {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            for number in 0.. {
                let ends = *stopped.borrow();
                let url = format!("https://example.com/gap/{number}");
                let accepted = writer.shorten(&url).await.is_ok();
                refused.store(!accepted, Relaxed);
                if accepted {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    // Not before a link is created again.
                    if ends {
                        break;
                    }
                }
            }
            longest
        });
        Ok(Self { stop, readers, gap })
    }

    /// Ends, and prints the longest time without a new link. Of the redirects without the database, a few may miss the cache
    /// and need it, which is the only failure that may happen.
    async fn stop(self, what: &str) -> Result<()> {
        self.stop.send(true)?;
        let Redirects {
            answered,
            answered_meanwhile: meanwhile,
            failed,
        } = self.readers.await?;
        let gap = self.gap.await?.as_secs_f64();
        let number = failed.len();
        println!(
            "{what}: {gap:.1} s without a new link, {answered} redirects from the cache, {meanwhile} of them meanwhile, \
             {number} failed"
        );
        let mut wrong = failed.iter();
        let wrong = wrong.find(|failure| !failure.contains("database-unavailable"));
        ensure!(wrong.is_none() && answered > 0, "{answered}, {wrong:?}");
        ensure!(
            number * 20 <= meanwhile,
            "while the database took no writes, {number} redirects failed and {meanwhile} did not"
        );
        Ok(())
    }
}

/// Waits until `DatabaseReady` has a reason. Each step takes its time.
async fn until_reason(stack: &Stack, status: &str, reason: &str) -> Result<()> {
    await_within(PATIENCE, reason, async || {
        let found = stack.current("DatabaseReady", status).await?;
        ensure!(found.reason == reason, "{found:?}");
        Ok(())
    })
    .await
    .map(drop)
}

/// Returns the number of links in the database that CloudNativePG runs.
async fn count(stack: &Stack) -> Result<String> {
    let count = "select count(*) from links";
    let pod = kubectl(
        stack,
        &[
            "get",
            "clusters.postgresql.cnpg.io/acme-pg",
            "--output=jsonpath={.status.currentPrimary}",
        ],
    )
    .await?;
    let ask = [
        "exec",
        &pod,
        "-c",
        "postgres",
        "--",
        "psql",
        "-d",
        "shortener",
        "-Atc",
        count,
    ];
    kubectl(stack, &ask).await
}

#[tokio::test]
async fn links_move_to_a_cluster_and_back_and_none_that_was_acknowledged_is_lost() -> Result<()> {
    Space::with("database-move", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec()).await?;
        let volume = [
            "get",
            "pvc",
            "acme-postgres",
            "--output=jsonpath={.spec.volumeName}",
        ];
        let old = kubectl(&stack, &volume).await?;
        let (writer, clients) = (Writer::start(&gateway), Clients::start(&gateway).await?);
        too_small(&stack).await?;
        move_in(&stack).await?;
        let links = writer.stop().await?;
        clients.stop("to the Cluster").await?;
        ensure!(!links.is_empty(), "nothing was written");
        for (code, url) in &links {
            gateway.assert_stored(code, url).await?;
        }
        println!(
            "{} links were acknowledged, {} rows",
            links.len(),
            count(&stack).await?.trim()
        );
        ensure!(
            kubectl(&stack, &volume).await? == old,
            "the old volume is gone"
        );

        let (writer, clients) = (Writer::start(&gateway), Clients::start(&gateway).await?);
        for step in commands("high-availability.md", "### Back to a managed database")? {
            let printed = paste(&stack, &step).await?;
            ensure!(printed.contains(" done"), "{printed}");
        }
        stack.ready().await?;
        let later = writer.stop().await?;
        clients.stop("back").await?;
        for (code, url) in links.iter().chain(&later) {
            gateway.assert_stored(code, url).await?;
        }
        await_condition("the managed database takes writes", async || {
            let refuses = psql(&stack, "show default_transaction_read_only").await?;
            ensure!(refuses.trim() == "off", "{refuses}");
            Ok(())
        })
        .await
    })
    .await
}

/// Asks for a Cluster in which the links may not fit. Nothing changes.
async fn too_small(stack: &Stack) -> Result<()> {
    let cluster = json!({"instances": 2, "storage": "200Mi", "template": {"resources": small()}});
    stack
        .edit(json!({"database": {"managed": null, "cloudNativePG": cluster}}))
        .await?;
    until_reason(stack, "True", "MoveTooSmall").await
}

/// Gives the Cluster enough space, and waits until the programs have it.
async fn move_in(stack: &Stack) -> Result<()> {
    stack
        .edit(json!({"database": {"cloudNativePG": {"storage": "512Mi"}}}))
        .await?;
    until_reason(stack, "False", "MoveImporting").await?;
    until_reason(stack, "True", "ClusterReady").await?;
    // A pod of the app that had the managed database answers 503 to writes until it ends.
    settled(stack).await?;
    await_condition("nothing of the move is left", async || {
        let kinds = "statefulset/acme-postgres,deployment/acme-move,networkpolicy/acme-move";
        let mut left = Vec::new();
        for object in kinds.split(',') {
            let get = ["get", object, "--ignore-not-found", "--output=name"];
            left.push(kubectl(stack, &get).await?);
        }
        ensure!(left.iter().all(String::is_empty), "{left:?}");
        Ok(())
    })
    .await
}
