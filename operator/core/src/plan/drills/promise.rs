//! The promises of the documentation, which a drill is compared with: the table "Failure model" of `docs/concepts.md`.

use std::time::Duration;

use super::step::RECOVERY_LIMIT;
use crate::api::{DrillPromise, DrillRequest, DrilledStore, Profile, ShortenerStackSpec};

/// Longest time from a request that was not served to the next one that was, for a kind that is promised to be served: a
/// single request without an answer, and the pause after it.
pub const GAP_LIMIT: Duration = Duration::from_secs(8);
/// Longest time between two requests of a kind.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Returns the kinds of requests that are sent, each with the time between two of them. New links stay below half of the
/// default rate limit of an address.
pub fn kinds(jobs: bool) -> impl Iterator<Item = (DrillRequest, Duration)> {
    let kinds = [
        (DrillRequest::CachedRedirect, 1),
        (DrillRequest::UncachedCode, 1),
        (DrillRequest::Create, 2),
        (DrillRequest::Job, 2),
    ];
    kinds
        .into_iter()
        .filter(move |(request, _)| jobs || *request != DrillRequest::Job)
        .map(|(request, seconds)| (request, Duration::from_secs(seconds)))
}

/// Returns true when the cache of a stack keeps a link from before a drill of so many seconds until the store is back.
pub fn is_cached(spec: &ShortenerStackSpec, seconds: i32) -> bool {
    let lifetime = Duration::from_secs(spec.cache.ttl_seconds.unsigned_abs().into());
    let needed = Duration::from_secs(seconds.unsigned_abs().into()) + RECOVERY_LIMIT;
    // The app varies the lifetime by up to a tenth.
    spec.profiles.contains(&Profile::Caching) && lifetime * 9 / 10 > needed
}

/// Returns the promise for a kind of request while a store is away. `cached` is true if the cache keeps a link meanwhile.
pub fn promise(store: DrilledStore, request: DrillRequest, cached: bool) -> DrillPromise {
    let is_served = match store {
        DrilledStore::Cache | DrilledStore::Vector | DrilledStore::Telemetry => true,
        DrilledStore::Queue => request != DrillRequest::Job,
        DrilledStore::Database => match request {
            DrillRequest::CachedRedirect => cached,
            DrillRequest::UncachedCode | DrillRequest::Create => false,
            DrillRequest::Job => true,
        },
    };
    if is_served {
        DrillPromise::Served
    } else {
        DrillPromise::Unavailable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/concepts.md");

    /// Returns the cells "links and redirects" and "jobs" of a row of the failure model.
    fn row(failure: &str) -> (&'static str, &'static str) {
        let start = format!("| {failure} | ");
        let row = PAGE.lines().find_map(|line| line.strip_prefix(&start));
        row.unwrap().split_once(" | ").unwrap()
    }

    /// Returns the requests that are answered with 503 while a store is away.
    fn unavailable(store: DrilledStore, cached: bool) -> Vec<DrillRequest> {
        let refused =
            |request: &DrillRequest| promise(store, *request, cached) == DrillPromise::Unavailable;
        let requests = kinds(true).map(|(request, _)| request);
        requests.filter(refused).collect()
    }

    #[test]
    fn a_drill_expects_what_the_failure_model_promises() {
        use DrillRequest::{CachedRedirect, Create, Job, UncachedCode};
        for (store, failure, links, jobs, expected) in [
            (
                DrilledStore::Cache,
                "cache",
                "slower; ",
                "no effect",
                &[][..],
            ),
            (DrilledStore::Queue, "broker", "no effect", "503; ", &[Job]),
            (
                DrilledStore::Database,
                "database",
                "cached links redirect; others, and new links, get 503",
                "accepted, and wait",
                &[UncachedCode, Create],
            ),
            (
                DrilledStore::Vector,
                "vector store",
                "no effect",
                "jobs of documents wait",
                &[],
            ),
            (
                DrilledStore::Telemetry,
                "collector or backend",
                "no effect; ",
                "no effect",
                &[],
            ),
        ] {
            let (of_links, rest) = row(failure);
            assert!(of_links.starts_with(links), "{failure}: {of_links}");
            assert!(rest.starts_with(jobs), "{failure}: {rest}");
            assert_eq!(unavailable(store, true), expected, "{failure}");
        }
        let without_cache = unavailable(DrilledStore::Database, false);
        assert_eq!(without_cache, [CachedRedirect, UncachedCode, Create]);
    }

    #[test]
    fn a_link_is_cached_if_it_outlives_the_drill_and_the_recovery() {
        for (profiles, lifetime, seconds, expected) in [
            (&["caching"][..], 3600, 600, true),
            (&["caching"], 60, 120, false),
            (&["caching"], 400, 60, false),
            (&["caching"], 401, 60, true),
            (&["queue"], 3600, 60, false),
        ] {
            let spec = json!({"profiles": profiles, "cache": {"ttlSeconds": lifetime}});
            let spec = serde_json::from_value(spec).unwrap();
            assert_eq!(is_cached(&spec, seconds), expected, "{lifetime} {seconds}");
        }
    }

    #[test]
    fn no_pause_is_longer_than_the_limit_of_a_gap_allows_for() {
        assert!(kinds(true).all(|(_, pause)| pause <= LONGEST_PAUSE));
    }
}
