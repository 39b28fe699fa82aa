//! Lookups of codes that wait for the cache at the same time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::future::{join_all, ready};
use shortener_app::{code::Code, store::Resolved};
use tokio::join;

use crate::cache_server::{PATIENT, Redis, connected, until};

const URL: &str = "https://example.com/together";

/// Returns the number of commands of lookups that the server has executed.
async fn commands(server: &Redis) -> u64 {
    let info = server.ask::<String>(&["INFO", "commandstats"]).await;
    let calls = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_mget:calls="));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

fn code(text: &str) -> Code<'_> {
    Code::parse(text).unwrap()
}

#[tokio::test]
async fn lookups_that_wait_at_the_same_time_are_two_commands_and_each_has_its_answer() {
    let server = Redis::start().await;
    let cache = connected(&server, PATIENT).await;
    let names: Vec<String> = (0..100).map(|number| format!("code{number}")).collect();
    let url = |number: usize| format!("{URL}/{number}");
    for (number, name) in names.iter().enumerate() {
        let (link, none) = (format!("link:{name}"), format!("{{link:{name}}}:none"));
        let target = url(number);
        let set: &[&str] = match number % 4 {
            0 => &["SET", &link, &target],
            1 => &["SET", &none, "1"],
            2 => &["SET", &link, "https://evil.example/\r\nSet-Cookie: a=b"],
            _ => &["RPUSH", &link, "a", "list"],
        };
        server.ask::<redis::Value>(set).await;
    }
    let before = commands(&server).await;
    let found = join_all(names.iter().map(|name| cache.look_up(code(name)))).await;
    for (number, known) in found.into_iter().enumerate() {
        let expected = match number % 4 {
            0 => Some(Resolved::To(url(number).into())),
            1 => Some(Resolved::Nothing),
            _ => None,
        };
        assert_eq!(known, expected, "{number}");
    }
    // The connection is checked by a lookup as well, every five seconds.
    let asked = commands(&server).await - before;
    assert!((2..=4).contains(&asked), "{asked} commands");
}

#[tokio::test]
async fn the_server_counts_no_miss_for_a_hit() {
    let server = Redis::start().await;
    let cache = connected(&server, PATIENT).await;
    server.ask::<()>(&["SET", "link:hot", URL]).await;
    server.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..100 {
        let known = cache.look_up(code("hot")).await;
        assert_eq!(known, Some(Resolved::To(URL.into())));
    }
    let info = server.ask::<String>(&["INFO", "stats"]).await;
    let count = |name: &str| {
        let rest = info.lines().find_map(|line| line.strip_prefix(name));
        rest.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(count("keyspace_hits:"), 100);
    // Those of one check of the connection, or of two.
    assert!(count("keyspace_misses:") <= 4, "{info}");
}

#[tokio::test]
async fn a_command_has_a_bound_and_many_lookups_are_a_few_of_them() {
    let server = Redis::start().await;
    let cache = connected(&server, PATIENT).await;
    server.ask::<()>(&["SET", "link:hot", URL]).await;
    let names: Vec<String> = (0..1000).map(|number| format!("code{number}")).collect();
    for (codes, commands_for_them) in [(names, 16), (vec!["hot".to_owned(); 1000], 1)] {
        let before = commands(&server).await;
        let found = join_all(codes.iter().map(|name| cache.look_up(code(name)))).await;
        for (name, known) in codes.iter().zip(found) {
            let expected = (name == "hot").then(|| Resolved::To(URL.into()));
            assert_eq!(known, expected, "{name}");
        }
        // The connection is checked by a lookup as well, every five seconds.
        let asked = commands(&server).await - before;
        let expected = commands_for_them..=commands_for_them + 2;
        assert!(expected.contains(&asked), "{asked} commands");
    }
}

#[tokio::test]
async fn a_request_that_leaves_takes_nothing_from_the_others() {
    let server = Redis::start().await;
    let cache = connected(&server, PATIENT).await;
    server.ask::<()>(&["SET", "link:stays", URL]).await;
    let leaves = async {
        tokio::select! {
            biased;
            known = cache.look_up(code("leaves")) => panic!("{known:?}"),
            () = ready(()) => {}
        }
    };
    let ((), known) = join!(leaves, cache.look_up(code("stays")));
    assert_eq!(known, Some(Resolved::To(URL.into())));
    // The one that began the command may be the one that leaves, and all may leave.
    tokio::select! {
        biased;
        known = cache.look_up(code("leaves")) => panic!("{known:?}"),
        () = ready(()) => {}
    }
    let known = cache.look_up(code("stays")).await;
    assert_eq!(known, Some(Resolved::To(URL.into())));
}

#[tokio::test]
async fn a_connection_that_broke_is_replaced_and_the_cache_stays_in_use() {
    let server = Redis::start().await;
    let cache = connected(&server, PATIENT).await;
    server.ask::<()>(&["SET", "link:hot", URL]).await;
    for _ in 0..10 {
        server
            .ask::<u64>(&["CLIENT", "KILL", "SKIPME", "yes"])
            .await;
        until(Some(Resolved::To(URL.into())), || async {
            let known = cache.look_up(code("hot")).await;
            assert!(cache.connection().is_up());
            known
        })
        .await;
    }
}

#[tokio::test]
async fn lookups_at_a_frozen_cache_end_together_and_a_bounded_number_waits() {
    const LOOKUPS: usize = 17_000;
    const WAITING: usize = 16_384;
    const DEADLINE: Duration = Duration::from_secs(2);
    let server = Redis::start().await;
    let cache = connected(&server, DEADLINE).await;
    server.ask::<()>(&["SET", "link:hot", URL]).await;
    server.freeze();
    let start = Instant::now();
    let refused = AtomicUsize::new(0);
    let found = join_all((0..LOOKUPS).map(|_| async {
        let known = cache.look_up(code("hot")).await;
        let waited = usize::from(start.elapsed() >= DEADLINE);
        refused.fetch_add(1 - waited, Ordering::Relaxed);
        known
    }));
    assert!(found.await.iter().all(Option::is_none));
    assert_eq!(refused.into_inner(), LOOKUPS - WAITING);
    until(false, || async { cache.connection().is_up() }).await;
    server.thaw();
    until(true, || async { cache.connection().is_up() }).await;
    let known = cache.look_up(code("hot")).await;
    assert_eq!(known, Some(Resolved::To(URL.into())));
}
