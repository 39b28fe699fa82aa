//! Clients that follow links, look up codes, create links and enqueue jobs at a steady rate. They do not wait for answers to
//! earlier requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;
use shortener_e2e::await_condition;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::balancer::Balancer;

/// Redirects per second.
const REDIRECTS: u64 = 200;
/// Number of redirects for each look-up, each job and each new link: 20, 20 and 10 of these per second.
const PER_LOOK_UP: u64 = 10;
const PER_JOB: u64 = 10;
const PER_LINK: u64 = 20;
/// Time limit of a request. A gateway gives up before.
const GIVES_UP: Duration = Duration::from_secs(16);
/// Destination of the link of all redirects.
const TARGET: &str = "https://example.com/followed";

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Follow a link that is in the cache.
    Follow,
    /// Follow an unknown code, for which the app asks the database.
    LookUp,
    /// Create a link.
    Create,
    /// Enqueue a job.
    Enqueue,
}

/// A request and its result.
#[derive(Clone, Debug)]
pub struct Request {
    pub wish: Wish,
    /// Number of the redirect with which it was sent.
    pub number: u64,
    /// Time at which it was sent, since the clients started.
    pub at: Duration,
    /// Time until the answer.
    pub took: Duration,
    /// The code of the new link, the id of the job or nothing; or the failure.
    pub outcome: Result<String, String>,
}

/// The clients of a stack.
pub struct Users {
    begin: Instant,
    /// Time of the last request for a link that was acknowledged, in milliseconds since the clients started.
    written: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    seen: JoinHandle<Result<Vec<Request>>>,
}

impl Users {
    /// Starts the clients. Returns after the time `calm`.
    pub async fn start(entry: &Arc<Balancer>, calm: Duration) -> Result<Self> {
        let code = entry.pick().shorten(TARGET).await?;
        entry.pick().wait_until_redirects(&code, TARGET).await?;
        let (stop, stopped) = watch::channel(false);
        let (begin, written) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let client = Client {
            entry: Arc::clone(entry),
            code,
            begin,
            written: Arc::clone(&written),
        };
        let seen = tokio::spawn(client.send_until(stopped));
        sleep(calm).await;
        Ok(Self {
            begin,
            written,
            stop,
            seen,
        })
    }

    /// Returns the time since the clients started.
    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits until a link is acknowledged whose request was sent after this time.
    pub async fn write_again(&self, after: Duration) -> Result<()> {
        await_condition("a link is created", async || {
            let written = Duration::from_millis(self.written.load(Ordering::Relaxed));
            ensure!(written > after, "the last one was at {written:?}");
            Ok(())
        })
        .await
    }

    /// Stops the clients. Returns every request in the order of the answers.
    pub async fn stop(self) -> Result<Vec<Request>> {
        self.stop.send(true)?;
        self.seen.await?
    }
}

#[derive(Clone)]
struct Client {
    entry: Arc<Balancer>,
    /// Code of the link of all redirects.
    code: String,
    begin: Instant,
    written: Arc<AtomicU64>,
}

impl Client {
    async fn send_until(self, stopped: watch::Receiver<bool>) -> Result<Vec<Request>> {
        let (mut seen, mut running) = (Vec::new(), JoinSet::new());
        let mut clock = interval(Duration::from_secs(1) / u32::try_from(REDIRECTS)?);
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut number = 0;
        loop {
            tokio::select! {
                _ = clock.tick() => {
                    if *stopped.borrow() {
                        break;
                    }
                    for wish in wishes(number) {
                        running.spawn(self.clone().send(wish, number));
                    }
                    number += 1;
                }
                Some(request) = running.join_next() => seen.push(request?),
            }
        }
        while let Some(request) = running.join_next().await {
            seen.push(request?);
        }
        Ok(seen)
    }

    async fn send(self, wish: Wish, number: u64) -> Request {
        let (at, begin) = (self.begin.elapsed(), Instant::now());
        let outcome = match timeout(GIVES_UP, self.fulfil(wish, number)).await {
            Ok(outcome) => outcome.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("no answer in {} s", GIVES_UP.as_secs())),
        };
        if wish == Wish::Create && outcome.is_ok() {
            let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
            self.written.fetch_max(at, Ordering::Relaxed);
        }
        Request {
            wish,
            number,
            at,
            took: begin.elapsed(),
            outcome,
        }
    }

    async fn fulfil(&self, wish: Wish, number: u64) -> Result<String> {
        let gateway = self.entry.pick();
        match wish {
            Wish::Follow => {
                gateway.assert_redirects(&self.code, TARGET).await?;
                Ok(String::new())
            }
            Wish::LookUp => {
                let answer = gateway.get(&format!("/unknown{number}")).await?;
                ensure!(answer.status == 404, "expected status 404, got {answer:?}");
                Ok(String::new())
            }
            Wish::Create => gateway.shorten(&destination(number)).await,
            Wish::Enqueue => {
                let job = json!({"task": "email", "id": number});
                Ok(gateway.enqueue(&job).await?.id)
            }
        }
    }
}

/// Returns the requests that are sent at the time of this redirect.
fn wishes(number: u64) -> impl Iterator<Item = Wish> {
    [
        (1, Wish::Follow),
        (PER_LOOK_UP, Wish::LookUp),
        (PER_JOB, Wish::Enqueue),
        (PER_LINK, Wish::Create),
    ]
    .into_iter()
    .filter_map(move |(every, wish)| number.is_multiple_of(every).then_some(wish))
}

/// Returns the destination of the link that is created with the redirect of this number.
pub fn destination(number: u64) -> String {
    format!("https://example.com/created/{number}")
}
