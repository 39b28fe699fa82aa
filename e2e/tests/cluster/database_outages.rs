//! A database that is down, isolated or read-only: links in the cache redirect, all other requests are refused at
//! once, and no acknowledged data is lost (A4).
//!
//! Specification: 7, 2.1.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use shortener_e2e::{
    Answer, GatewayClient, SharedStack, await_condition, kubectl, valkey, with_cache,
};

/// Attempts of each kind during an outage.
const TRIED: usize = 20;
/// The promised time of the usual answer, beside that of some requests that need no store: these are slow on a busy machine.
const REFUSAL_LIMIT: Duration = Duration::from_millis(250);
const REQUESTS: u32 = 4;

#[tokio::test]
async fn without_a_database_cached_links_redirect_and_all_else_is_refused_at_once() -> Result<()> {
    with_cache(async |shared| {
        let links = Links::make(shared).await?;
        shared.stack.pause().await?;
        shared.stack.scale_to_zero("postgres").await?;
        links.check_during_outage(shared).await?;
        shared.stack.until("DatabaseReady", "False").await?;
        shared.stack.resume().await?;
        links.check_recovery(shared).await
    })
    .await
}

#[tokio::test]
async fn while_packets_to_the_database_are_dropped_cached_links_redirect_and_all_else_is_refused()
-> Result<()> {
    with_cache(async |shared| {
        let links = Links::make(shared).await?;
        shared.stack.pause().await?;
        shared.stack.isolate("postgres").await?;
        links.check_during_outage(shared).await?;
        shared.stack.resume().await?;
        links.check_recovery(shared).await
    })
    .await
}

#[tokio::test]
async fn a_database_that_became_read_only_stops_writes_and_keeps_every_redirect() -> Result<()> {
    with_cache(async |shared| {
        let links = Links::make(shared).await?;
        writable(shared, false).await?;
        let outcome = async {
            refused_from_now_on(async || links.create(&shared.gateway).await).await?;
            links.lead(&shared.gateway).await
        }
        .await;
        // The next test needs to write, even if this one failed.
        writable(shared, true).await?;
        outcome?;
        links.check_recovery(shared).await
    })
    .await
}

/// The series of new links that were refused with 503.
const REFUSED_CREATES: &str = r#"http_requests_total{http_request_method="POST",http_route="/shorten",http_response_status_code="503"}"#;

/// A link that is in the cache, and one that is only in the database.
struct Links {
    cached: String,
    uncached: String,
}

const CACHED: &str = "https://example.com/cached";
const UNCACHED: &str = "https://example.com/uncached";

impl Links {
    async fn make(shared: &SharedStack) -> Result<Self> {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let links = Self {
            cached: gateway.shorten(CACHED).await?,
            uncached: gateway.shorten(UNCACHED).await?,
        };
        links.forget(shared).await?;
        let copy = valkey(stack, &["get", &format!("link:{}", links.cached)]).await?;
        ensure!(
            copy == CACHED,
            "expected {CACHED} in the cache, got {copy:?}"
        );
        Ok(links)
    }

    async fn forget(&self, shared: &SharedStack) -> Result<()> {
        let key = format!("link:{}", self.uncached);
        valkey(&shared.stack, &["del", &key]).await.map(|_| ())
    }

    async fn create(&self, gateway: &GatewayClient) -> Result<Answer> {
        let url = json!({"url": "https://example.com/during"});
        gateway.post("/api/shorten", &url).await
    }

    async fn miss(&self, gateway: &GatewayClient) -> Result<Answer> {
        gateway.get(&format!("/api/links/{}", self.uncached)).await
    }

    /// Checks that both redirect to the right URL.
    async fn lead(&self, gateway: &GatewayClient) -> Result<()> {
        gateway.assert_redirects(&self.cached, CACHED).await?;
        gateway.assert_redirects(&self.uncached, UNCACHED).await
    }

    /// Checks the behavior without a database: hits are served, misses and new links are refused.
    async fn check_during_outage(&self, shared: &SharedStack) -> Result<()> {
        let gateway = &shared.gateway;
        // The first request detects the outage.
        refused_from_now_on(async || self.miss(gateway).await).await?;
        refused_from_now_on(async || self.create(gateway).await).await?;
        let counted = gateway.count(REFUSED_CREATES).await?;
        let mut times = Vec::with_capacity(2 * TRIED);
        let mut others = Vec::with_capacity(TRIED);
        for _ in 0..TRIED {
            gateway.assert_redirects(&self.cached, CACHED).await?;
            let begin = Instant::now();
            self.miss(gateway).await?.check_unavailable()?;
            times.push(begin.elapsed());
            let begin = Instant::now();
            self.create(gateway).await?.check_unavailable()?;
            times.push(begin.elapsed());
            let begin = Instant::now();
            let health = gateway.get("/health").await?;
            others.push(begin.elapsed());
            ensure!(health.status == 200, "/health: {health:?}");
        }
        let counted = gateway.count(REFUSED_CREATES).await? - counted;
        ensure!(
            counted == TRIED as u64,
            "expected {TRIED} refused creates in the metric, counted {counted}"
        );
        times.sort();
        others.sort();
        let limit = REFUSAL_LIMIT + REQUESTS * others[TRIED / 2];
        let (usual, slowest) = (times[TRIED], times[2 * TRIED - 1]);
        println!(
            "without the database: refused after {usual:?} at the median, {slowest:?} at most"
        );
        ensure!(
            usual < limit,
            "refusals took {usual:?} at the median (limit {limit:?}), {slowest:?} at most"
        );
        Ok(())
    }

    /// Checks that every acknowledged link is there again, and that new links can be created.
    async fn check_recovery(&self, shared: &SharedStack) -> Result<()> {
        let gateway = &shared.gateway;
        shared.stack.ready().await?;
        let url = "https://example.com/after";
        let again = "links are created again";
        let code = await_condition(again, async || gateway.shorten(url).await).await?;
        self.forget(shared).await?;
        self.lead(gateway).await?;
        gateway.assert_redirects(&code, url).await
    }
}

/// Waits until the answer is a 503 with `Retry-After`.
async fn refused_from_now_on(ask: impl AsyncFn() -> Result<Answer>) -> Result<()> {
    await_condition("the request is refused with 503", async || {
        ask().await?.check_unavailable()
    })
    .await
}

/// Makes the database read-only, as a failover to a standby does, or writable again.
async fn writable(shared: &SharedStack, writable: bool) -> Result<()> {
    let set = if writable {
        "ALTER SYSTEM RESET default_transaction_read_only"
    } else {
        "ALTER SYSTEM SET default_transaction_read_only = on"
    };
    let psql = format!(
        "psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username \"$POSTGRES_USER\" --dbname postgres \
         --command '{set}' --command 'SELECT pg_reload_conf()'"
    );
    let command = ["exec", "acme-postgres-0", "--", "sh", "-c", &psql];
    kubectl(&shared.stack, &command).await.map(|_| ())
}
