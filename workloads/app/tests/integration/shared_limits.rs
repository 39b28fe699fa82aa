//! Rate limits that several replicas share through the cache.

use std::time::Instant;

use shortener_testing::database::TestDatabase;

use crate::{
    cache::{cache_is_up, metric},
    cache_server::{Redis, until},
    client::{get, json_bytes, post, send},
    support::App,
};

const LINK: &str = r#"{"url":"https://example.com/"}"#;
/// The script of the shared buckets.
const SCRIPT: &str = include_str!("../../src/limits/shared.lua");

/// Returns the number of scripts that the server has run.
async fn scripts_run(cache: &Redis) -> u64 {
    let info = cache.ask::<String>(&["INFO", "commandstats"]).await;
    let calls = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_client_far_from_its_limit_costs_the_cache_nothing() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = App::start_with(&database, |config| {
        cache.configure(config);
        config.limit_requests_per_second = 50;
    })
    .await;
    cache_is_up(&app).await;
    for _ in 0..25 {
        assert_eq!(get(app.public, "/health").await.status, 200);
    }
    assert_eq!(scripts_run(&cache).await, 0, "an eighth of the burst");
    for _ in 0..25 {
        assert_eq!(get(app.public, "/health").await.status, 200);
    }
    let asked = scripts_run(&cache).await;
    assert!((1..=30).contains(&asked), "{asked} questions");
    let left = cache.ask::<i64>(&["PTTL", "limit:requests:{127.0.0.1}"]);
    assert!((1..=45_000).contains(&left.await), "a bucket ends");
}

#[tokio::test]
async fn a_flood_through_several_replicas_passes_the_burst_and_the_slack_at_most() {
    const BURST: u32 = 80;
    /// Of each replica: twice the ten requests that pass without the cache.
    const SLACK: u32 = 2 * 10;
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let mut apps = Vec::new();
    for _ in 0..3 {
        let app = App::start_with(&database, |config| {
            cache.configure(config);
            config.limit_requests_per_second = 1;
            config.limit_requests_burst = BURST;
        });
        apps.push(app.await);
    }
    for app in &apps {
        cache_is_up(app).await;
    }
    let (start, mut served, mut refused) = (Instant::now(), 0, 0);
    for _ in 0..100 {
        for app in &apps {
            let answer = get(app.public, "/health").await;
            if answer.status == 200 {
                served += 1;
                continue;
            }
            answer.problem(429, "rate-limited");
            refused += 1;
            let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=u64::from(BURST)).contains(&wait), "{wait}");
        }
    }
    let most = BURST + start.elapsed().as_secs() as u32 + 1 + 3 * SLACK;
    assert!((BURST..=most).contains(&served), "{served} of {most}");
    let asked = scripts_run(&cache).await;
    assert!(asked < u64::from(served), "{asked} for {served}, {refused}");
}

/// Asks a bucket of four tokens, of which one comes back each millisecond, as if this were the time in microseconds.
async fn answer(cache: &Redis, now: u64, debt: u64, age: u64) -> (u64, u64, u64) {
    answer_for(cache, now, (debt, age), 1).await
}

/// Asks the bucket for so many tokens.
async fn answer_for(
    cache: &Redis,
    now: u64,
    (debt, age): (u64, u64),
    cost: u64,
) -> (u64, u64, u64) {
    const CLOCK: &str = "redis.call('TIME')";
    assert!(SCRIPT.contains(CLOCK));
    let time = format!("{{'{}', '{}'}}", now / 1_000_000, now % 1_000_000);
    let script = SCRIPT.replace(CLOCK, &time);
    let memory = 3_600_000_000;
    let numbers = [1000, 4000, debt, age, memory, cost].map(|number: u64| number.to_string());
    let mut command = vec!["EVAL", script.as_str(), "1", "bucket"];
    command.extend(numbers.iter().map(String::as_str));
    cache.ask(&command).await
}

#[tokio::test]
async fn the_shared_bucket_counts_late_reports_from_their_own_time_on() {
    const NOW: u64 = 1_700_000_000_000_000;
    let cache = Redis::start().await;
    assert_eq!(answer(&cache, NOW, 0, 0).await, (0, 1, 1000));
    for full_after in [2000, 3000, 4000] {
        assert_eq!(answer(&cache, NOW, 0, 0).await, (0, 1, full_after));
    }
    assert_eq!(answer(&cache, NOW, 0, 0).await, (0, 0, 4000));
    let part = answer(&cache, NOW + 1500, 2, 0).await;
    assert_eq!(part, (1, 0, 3500), "a report comes before new tokens");
    let late = answer(&cache, NOW + 10_000, 2, 3000).await;
    assert_eq!(late, (2, 1, 1000), "reported tokens have come back since");
    // The other replica's tokens of the same time have not.
    let other = answer(&cache, NOW + 10_000, 3, 5000).await;
    assert_eq!(other, (3, 0, 4000));
    for garbage in ["", "x", "-1", "nan", "inf", "-inf", "1e300", "0x10"] {
        cache.ask::<()>(&["SET", "bucket", garbage]).await;
        let found = answer(&cache, NOW, 1, 0).await;
        assert_eq!(found, (1, 1, 2000), "{garbage:?}");
    }
    assert!(cache.ask::<i64>(&["PTTL", "bucket"]).await > 0);
}

#[tokio::test]
async fn a_large_request_gets_all_its_tokens_from_the_shared_bucket_or_none() {
    const NOW: u64 = 1_700_000_000_000_000;
    let cache = Redis::start().await;
    let nothing = (0, 0);
    let first = answer_for(&cache, NOW, nothing, 3).await;
    assert_eq!(first, (0, 3, 3000));
    let second = answer_for(&cache, NOW, nothing, 3).await;
    assert_eq!(second, (0, 0, 3000));
    let small = answer_for(&cache, NOW, nothing, 1).await;
    assert_eq!(small, (0, 1, 4000));
    let later = answer_for(&cache, NOW + 3000, nothing, 3).await;
    assert_eq!(later, (0, 3, 4000));
}

#[tokio::test]
async fn large_requests_use_up_the_limit_of_all_replicas_sooner() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let start = || {
        App::start_with(&database, |config| {
            cache.configure(config);
            config.limit_requests_per_second = 1;
            config.limit_requests_burst = 80;
        })
    };
    let (first, second) = (start().await, start().await);
    cache_is_up(&first).await;
    cache_is_up(&second).await;
    // 17 tokens each; that there is no vector store is found out afterwards.
    let large = json_bytes("PUT", "/docs/1", "", &[b' '; 128 * 1024]);
    let mut statuses = Vec::new();
    for app in [&first, &second, &first, &second, &first, &second] {
        statuses.push(send(app.public, &large).await.status);
    }
    assert_eq!(statuses, [501, 501, 501, 501, 429, 429]);
}

#[tokio::test]
async fn replicas_count_the_requests_of_a_client_together() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let start = || {
        App::start_with(&database, |config| {
            cache.configure(config);
            config.limit_shorten_per_minute = 1;
            config.limit_shorten_burst = 4;
            config.limit_requests_per_second = 1;
            config.limit_requests_burst = 10;
        })
    };
    let (first, second) = (start().await, start().await);
    cache_is_up(&first).await;
    cache_is_up(&second).await;
    let mut created = Vec::new();
    for left in [3, 1, 0] {
        for (app, left) in [(&first, left), (&second, left.max(1) - 1)] {
            let response = post(app.public, "/shorten", LINK).await;
            let told = response.header("ratelimit").unwrap();
            let expected = format!("\"shorten\";r={left};t=");
            assert!(told.starts_with(&expected), "{told}");
            created.push(response.status);
        }
    }
    assert_eq!(created, [201, 201, 201, 201, 429, 429]);
    let refused = post(second.public, "/shorten", LINK).await;
    refused.problem(429, "rate-limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");

    let mut served = 0;
    for _ in 0..9 {
        for app in [&first, &second] {
            served += u32::from(get(app.public, "/health").await.status == 200);
        }
    }
    assert!(
        (10..=14).contains(&served),
        "{served} of 18 with a burst of 10 for both together"
    );
    for bucket in cache.ask::<Vec<String>>(&["KEYS", "limit:*"]).await {
        assert!(
            cache.ask::<i64>(&["PTTL", &bucket]).await > 0,
            "{bucket} never expires"
        );
    }
}

#[tokio::test]
async fn without_the_cache_every_replica_counts_for_itself() {
    let database = TestDatabase::new().await;
    let mut cache = Redis::start().await;
    let start = || {
        App::start_with(&database, |config| {
            cache.configure(config);
            config.limit_shorten_per_minute = 1;
            config.limit_shorten_burst = 2;
        })
    };
    let (first, second) = (start().await, start().await);
    cache_is_up(&first).await;
    cache.stop().await;
    for app in [&first, &second] {
        let mut created = Vec::new();
        for _ in 0..3 {
            created.push(post(app.public, "/shorten", LINK).await.status);
        }
        assert_eq!(created, [201, 201, 429]);
    }
}

#[tokio::test]
async fn whatever_stands_in_a_bucket_locks_nobody_out() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = App::start_with(&database, |config| {
        cache.configure(config);
        config.limit_requests_per_second = 1000;
        // So few that every request asks.
        config.limit_requests_burst = 4;
    })
    .await;
    cache_is_up(&app).await;
    let bucket = "limit:requests:{127.0.0.1}";
    for garbage in ["", "x", "-1", "1e300", "nan", "inf"] {
        cache.ask::<()>(&["SET", bucket, garbage]).await;
        until(200, || async { get(app.public, "/health").await.status }).await;
    }
    cache.ask::<()>(&["DEL", bucket]).await;
    cache.ask::<()>(&["RPUSH", bucket, "a", "list"]).await;
    until(200, || async { get(app.public, "/health").await.status }).await;
    assert_eq!(metric(&app, "cache_up").await, 1);
}
