//! The profile `caching`: the specification's table of the states of a cache entry, row by row.
//!
//! Specification: 3.1, 2.2.

use anyhow::{Result, ensure};
use serde_json::json;
use shortener_e2e::{GatewayClient, SharedStack, Stack, await_condition, valkey, with_cache};

/// The default time to live in seconds, plus or minus a tenth; ten seconds may pass before the check.
const TTL: std::ops::RangeInclusive<i64> = 3230..=3960;

#[tokio::test]
async fn the_first_redirect_of_a_new_link_is_a_hit() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let url = "https://example.com/first";
        let code = gateway.shorten(url).await?;
        holds_copy(stack, &code, url).await?;
        redirect_hits(gateway, &code, url).await
    })
    .await
}

#[tokio::test]
async fn deleting_the_key_makes_the_next_redirect_a_miss_that_repopulates() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let url = "https://example.com/deleted";
        let code = gateway.shorten(url).await?;
        let deleted = valkey(stack, &["del", &format!("link:{code}")]).await?;
        assert_eq!(deleted, "1");
        redirect_misses(gateway, &code, url).await?;
        comes_to_hold_copy(stack, &code, url).await?;
        redirect_hits(gateway, &code, url).await
    })
    .await
}

#[tokio::test]
async fn an_entry_whose_time_is_over_makes_the_next_redirect_a_miss() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let url = "https://example.com/over";
        let code = gateway.shorten(url).await?;
        // The entry has expired when the server answers.
        valkey(stack, &["pexpireat", &format!("link:{code}"), "1"]).await?;
        assert_eq!(time_to_live(stack, &code).await?, -2);
        redirect_misses(gateway, &code, url).await?;
        comes_to_hold_copy(stack, &code, url).await
    })
    .await
}

#[tokio::test]
async fn a_flushed_cache_is_filled_again_by_redirects() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let mut links = Vec::new();
        for number in 0..5 {
            let url = format!("https://example.com/flushed/{number}");
            links.push((gateway.shorten(&url).await?, url));
        }
        valkey(stack, &["flushall"]).await?;
        let follow_all = async || {
            for (code, url) in &links {
                gateway.assert_redirects(code, url).await?;
            }
            Ok(())
        };
        counted(gateway, 0, 5, follow_all).await?;
        for (code, url) in &links {
            comes_to_hold_copy(stack, code, url).await?;
        }
        counted(gateway, 5, 0, follow_all).await
    })
    .await
}

/// Specification: 2.2, 3.1.
#[tokio::test]
async fn no_entry_lives_for_ever() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let code = gateway.shorten("https://example.com/mortal").await?;
        let unknown = gateway.get("/api/links/nosuchcode").await?;
        assert_eq!(unknown.status, 404, "{unknown:?}");
        ensure!(time_to_live(stack, &code).await? > 0);
        for key in valkey(stack, &["--scan"]).await?.lines() {
            let left: i64 = valkey(stack, &["ttl", key]).await?.parse()?;
            // The key may have expired between the two commands, but it must never lack an expiry.
            ensure!(left != -1, "{key} has no expiry");
        }
        Ok(())
    })
    .await
}

/// Specification: 3.1.
#[tokio::test]
async fn an_unknown_code_is_remembered_until_it_is_created() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let code = format!("later-{}", std::process::id());
        let key = format!("{{link:{code}}}:none");
        for _ in 0..2 {
            let unknown = gateway.get(&format!("/api/links/{code}")).await?;
            assert_eq!(unknown.status, 404, "{unknown:?}");
        }
        await_condition("the cache denies the code", async || {
            let left: i64 = valkey(stack, &["ttl", &key]).await?.parse()?;
            ensure!(
                (1..=15).contains(&left),
                "expected 1 to 15 s to live, got {left} s"
            );
            Ok(())
        })
        .await?;
        let url = "https://example.com/later";
        let created = gateway
            .post("/api/shorten", &json!({"url": url, "code": code}))
            .await?;
        assert_eq!(created.status, 201, "{created:?}");
        gateway.assert_redirects(&code, url).await?;
        assert_eq!(valkey(stack, &["exists", &key]).await?, "0");
        Ok(())
    })
    .await
}

/// Specification: 5, 8.
#[tokio::test]
async fn the_cache_has_a_password_a_limit_and_forgets_what_is_used_least() -> Result<()> {
    with_cache(async |SharedStack { stack, .. }| {
        let setting = async |name: &str| {
            let answer = valkey(stack, &["config", "get", name]).await?;
            anyhow::Ok(answer.lines().nth(1).unwrap_or_default().to_owned())
        };
        assert_eq!(setting("maxmemory").await?, (128 << 20).to_string());
        assert_eq!(setting("maxmemory-policy").await?, "allkeys-lfu");
        let ask = "valkey-cli get link:x";
        let pod = format!("{}-cache-0", stack.name);
        let answer = shortener_e2e::kubectl(stack, &["exec", &pod, "--", "sh", "-c", ask]).await?;
        ensure!(
            answer.contains("NOAUTH"),
            "expected NOAUTH without a password, got {answer}"
        );
        Ok(())
    })
    .await
}

/// Specification: 2.2.
#[tokio::test]
async fn the_store_counts_hits_and_misses_too() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let statistics = async |name: &str| {
            let info = valkey(stack, &["info", "stats"]).await?;
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            anyhow::Ok(line.unwrap_or_default().trim().parse::<u64>()?)
        };
        let url = "https://example.com/counted";
        let code = gateway.shorten(url).await?;
        let hits = statistics("keyspace_hits:").await?;
        gateway.assert_redirects(&code, url).await?;
        ensure!(
            statistics("keyspace_hits:").await? > hits,
            "keyspace_hits did not rise"
        );
        let misses = statistics("keyspace_misses:").await?;
        for _ in 0..50 {
            gateway.assert_redirects(&code, url).await?;
        }
        // Each replica checks its connection every five seconds.
        ensure!(
            statistics("keyspace_misses:").await? < misses + 50,
            "keyspace_misses rises with hits"
        );
        valkey(stack, &["del", &format!("link:{code}")]).await?;
        let misses = statistics("keyspace_misses:").await?;
        gateway.assert_redirects(&code, url).await?;
        ensure!(
            statistics("keyspace_misses:").await? > misses,
            "keyspace_misses did not rise"
        );
        Ok(())
    })
    .await
}

/// A3: the cache notifies the app of deleted keys over a connection, which is lost here.
///
/// Specification: 3.1.
#[tokio::test]
async fn no_redirect_after_a_delete_is_stale_when_the_app_could_not_be_told() -> Result<()> {
    with_cache(async |SharedStack { stack, gateway, .. }| {
        let url = "https://example.com/untold";
        let code = gateway.shorten(url).await?;
        for _ in 0..3 {
            redirect_hits(gateway, &code, url).await?;
            let killed = valkey(stack, &["client", "kill", "type", "normal"]).await?;
            ensure!(killed != "0", "the app had no connection to the cache");
            valkey(stack, &["del", &format!("link:{code}")]).await?;
            redirect_misses(gateway, &code, url).await?;
            await_condition("the link is in the cache again", async || {
                gateway.assert_redirects(&code, url).await?;
                holds_copy(stack, &code, url).await
            })
            .await?;
        }
        Ok(())
    })
    .await
}

/// Checks that the next redirect of a link finds it in the cache.
async fn redirect_hits(gateway: &GatewayClient, code: &str, url: &str) -> Result<()> {
    let redirect = async || gateway.assert_redirects(code, url).await;
    counted(gateway, 1, 0, redirect).await
}

/// Checks that the next redirect of a link does not find it in the cache.
async fn redirect_misses(gateway: &GatewayClient, code: &str, url: &str) -> Result<()> {
    let redirect = async || gateway.assert_redirects(code, url).await;
    counted(gateway, 0, 1, redirect).await
}

/// Checks the numbers of hits and misses that the app counts while `what` runs.
async fn counted(
    gateway: &GatewayClient,
    hits: u64,
    misses: u64,
    what: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let before = lookups(gateway).await?;
    what().await?;
    let after = lookups(gateway).await?;
    let found = (after.0 - before.0, after.1 - before.1);
    ensure!(
        found == (hits, misses),
        "expected {hits} hits and {misses} misses, counted {found:?}"
    );
    Ok(())
}

async fn lookups(gateway: &GatewayClient) -> Result<(u64, u64)> {
    let hits = gateway
        .count(r#"cache_requests_total{result="hit"}"#)
        .await?;
    let misses = gateway
        .count(r#"cache_requests_total{result="miss"}"#)
        .await?;
    Ok((hits, misses))
}

/// Waits until the cache holds this URL for the code: after a miss it is written while the request goes on.
async fn comes_to_hold_copy(stack: &Stack, code: &str, url: &str) -> Result<()> {
    await_condition("the link is in the cache", async || {
        holds_copy(stack, code, url).await
    })
    .await
}

/// Checks that the cache holds this URL for the code, with an expiry.
async fn holds_copy(stack: &Stack, code: &str, url: &str) -> Result<()> {
    let copy = valkey(stack, &["get", &format!("link:{code}")]).await?;
    ensure!(copy == url, "expected {url:?} in the cache, got {copy:?}");
    let left = time_to_live(stack, code).await?;
    ensure!(
        TTL.contains(&left),
        "expected {TTL:?} s to live, got {left} s"
    );
    Ok(())
}

async fn time_to_live(stack: &Stack, code: &str) -> Result<i64> {
    let left = valkey(stack, &["ttl", &format!("link:{code}")]).await?;
    Ok(left.parse()?)
}
