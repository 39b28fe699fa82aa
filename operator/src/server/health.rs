//! Health of the watches that reconciles depend on, for `/readyz`.
//!
//! A standby watches nothing, so it is healthy.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a watch may fail before the operator counts as unready. A restart of the API server is shorter.
const TOLERATED: Duration = Duration::from_secs(60);
/// Time without a failure after which a watch works again. A watch that was opened again is silent until an object
/// changes. One that fails is tried again after 60 s at most, and each attempt may take a while.
const QUIET: Duration = Duration::from_secs(120);

/// The health of the watches; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Vec<Watch>>>);

/// A watch that reconciles depend on.
#[derive(Debug)]
struct Watch {
    /// Objects that it watches, in words.
    subject: String,
    /// True once the objects have been listed.
    listed: bool,
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    last: Instant,
    error: String,
}

/// The handle with which a watch reports its health.
#[derive(Clone, Debug)]
pub struct WatchHealth {
    health: Health,
    place: usize,
}

impl Health {
    /// Adds a watch, which has listed nothing yet.
    pub fn expect(&self, subject: &str) -> WatchHealth {
        let mut watches = self.0.lock();
        watches.push(Watch {
            subject: subject.to_owned(),
            listed: false,
            outage: None,
        });
        WatchHealth {
            health: self.clone(),
            place: watches.len() - 1,
        }
    }

    /// Removes all watches, which end with the term of a leader.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    /// Returns the reasons for which the operator cannot do its work, one in each line; none if it can.
    pub fn problems(&self) -> Vec<String> {
        let now = Instant::now();
        let watches = self.0.lock();
        watches
            .iter()
            .filter_map(|watch| watch.problem(now))
            .collect()
    }
}

impl Watch {
    fn problem(&self, now: Instant) -> Option<String> {
        let outage = self.outage.as_ref();
        let outage = outage.filter(|outage| now - outage.last <= QUIET);
        let subject = &self.subject;
        match outage {
            Some(Outage { error, .. }) if !self.listed => {
                Some(format!("{subject} could not be listed yet: {error}"))
            }
            None if !self.listed => Some(format!("{subject} have not been listed yet")),
            Some(Outage { since, error, .. }) if now - *since > TOLERATED => {
                let seconds = (now - *since).as_secs();
                Some(format!(
                    "the watch of {subject} has failed for {seconds} s: {error}"
                ))
            }
            _ => None,
        }
    }
}

impl WatchHealth {
    /// Records an event: the objects have been listed, and the watch works.
    pub fn works(&self) {
        self.change(|watch| {
            watch.listed = true;
            watch.outage = None;
        });
    }

    pub fn fails(&self, error: &str) {
        let now = Instant::now();
        self.change(|watch| {
            let earlier = watch.outage.take();
            let since = earlier
                .filter(|outage| now - outage.last <= QUIET)
                .map_or(now, |outage| outage.since);
            watch.outage = Some(Outage {
                since,
                last: now,
                error: error.to_owned(),
            });
        });
    }

    fn change(&self, change: impl FnOnce(&mut Watch)) {
        if let Some(watch) = self.health.0.lock().get_mut(self.place) {
            change(watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn a_standby_watches_nothing_and_is_healthy() {
        assert_eq!(Health::default().problems(), [] as [String; 0]);
    }

    #[test]
    fn a_leader_that_stands_by_again_watches_nothing() {
        let health = Health::default();
        health.expect("stacks").fails("refused");
        assert_eq!(health.problems().len(), 1);
        health.forget();
        assert_eq!(health.problems(), [] as [String; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_operator_is_unready_until_every_watch_has_listed_its_objects() {
        let health = Health::default();
        let (stacks, secrets) = (health.expect("stacks"), health.expect("secrets"));
        stacks.works();
        assert_eq!(health.problems(), ["secrets have not been listed yet"]);
        secrets.fails("forbidden");
        assert_eq!(
            health.problems(),
            ["secrets could not be listed yet: forbidden"]
        );
        secrets.works();
        assert_eq!(health.problems(), [] as [String; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_keeps_failing_is_named_with_its_last_error() {
        let health = Health::default();
        let stacks = health.expect("stacks");
        stacks.works();
        stacks.fails("refused");
        advance(Duration::from_secs(50)).await;
        stacks.fails("not served");
        assert_eq!(health.problems(), [] as [String; 0], "it may be a restart");
        advance(Duration::from_secs(20)).await;
        assert_eq!(
            health.problems(),
            ["the watch of stacks has failed for 70 s: not served"]
        );
        stacks.works();
        assert_eq!(health.problems(), [] as [String; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_far_apart_are_no_outage() {
        let health = Health::default();
        let stacks = health.expect("stacks");
        stacks.works();
        for _ in 0..5 {
            stacks.fails("reset");
            advance(Duration::from_secs(121)).await;
            assert_eq!(health.problems(), [] as [String; 0]);
        }
    }
}
