//! The circuit breaker of the cache: after several failures in a row, requests continue without the cache at once.
//!
//! A late answer may be the fault of this process, and after a pause of it the time limits of all commands pass at
//! once. So a failure counts only if its command began after the last one that counted, and any answer begins anew.

use tokio::time::Instant;

/// The number of failures in a row after which the breaker is open.
pub(super) const FAILURES: u32 = 3;

/// The connection while the breaker is closed, and nothing while it is open.
#[derive(Debug)]
pub(super) struct Breaker<C>(Option<Closed<C>>);

#[derive(Debug)]
struct Closed<C> {
    connection: C,
    failures: u32,
    /// The time of the last failure that counted, or else the time from which on the connection is used.
    since: Instant,
}

impl<C> Breaker<C> {
    /// Returns a breaker that is open.
    pub(super) fn open() -> Self {
        Self(None)
    }

    /// Returns the connection that requests use; `None` while the breaker is open.
    pub(super) fn connection(&self) -> Option<&C> {
        Some(&self.0.as_ref()?.connection)
    }

    /// Returns true if requests use the cache, although the last command that ended has failed.
    pub(super) fn is_suspicious(&self) -> bool {
        self.0.as_ref().is_some_and(|closed| closed.failures > 0)
    }

    /// Lets requests use this connection.
    pub(super) fn close(&mut self, connection: C, now: Instant) {
        self.0 = Some(Closed {
            connection,
            failures: 0,
            since: now,
        });
    }

    /// Records that a command was answered.
    pub(super) fn answered(&mut self) {
        if let Some(closed) = &mut self.0 {
            closed.failures = 0;
        }
    }

    /// Records that a command has failed that began at this time. A conclusive failure is an answer that this server
    /// cannot be used. Returns true if the breaker opens.
    pub(super) fn failed(&mut self, began: Instant, now: Instant, is_conclusive: bool) -> bool {
        let Some(closed) = &mut self.0 else {
            return false;
        };
        if began < closed.since {
            return false;
        }
        closed.failures += 1;
        closed.since = now;
        let opens = is_conclusive || closed.failures >= FAILURES;
        if opens {
            self.0 = None;
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A breaker and a clock that only the test moves.
    struct Scene {
        breaker: Breaker<&'static str>,
        start: Instant,
    }

    impl Scene {
        /// Returns a breaker that was closed at 0.
        fn new() -> Self {
            let mut breaker = Breaker::open();
            let start = Instant::now();
            breaker.close("connection", start);
            Self { breaker, start }
        }

        fn at(&self, milliseconds: u64) -> Instant {
            self.start + Duration::from_millis(milliseconds)
        }

        /// Lets a command fail; returns true if the breaker opens.
        fn fails(&mut self, began: u64, now: u64) -> bool {
            let (began, now) = (self.at(began), self.at(now));
            self.breaker.failed(began, now, false)
        }

        fn is_closed(&self) -> bool {
            self.breaker.connection().is_some()
        }
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_connection_closes_it() {
        let mut scene = Scene::new();
        assert!(!scene.fails(0, 100) && !scene.fails(100, 200));
        assert!(scene.is_closed());
        assert!(scene.fails(200, 300) && !scene.is_closed());
        assert!(!scene.fails(300, 400), "it opens once");
        scene.breaker.close("another", scene.at(500));
        assert_eq!(scene.breaker.connection(), Some(&"another"));
        assert!(!scene.fails(500, 600), "the count begins anew");
    }

    #[test]
    fn an_answer_in_between_begins_anew() {
        let mut scene = Scene::new();
        for now in 0..20 {
            assert!(!scene.fails(now, now));
            if now % 2 == 1 {
                assert!(scene.breaker.is_suspicious());
                scene.breaker.answered();
                assert!(!scene.breaker.is_suspicious());
            }
        }
        assert!(scene.is_closed());
    }

    #[test]
    fn a_pause_of_this_process_is_one_failure_whatever_waited() {
        let mut scene = Scene::new();
        for began in 0..100 {
            assert!(!scene.fails(began, 60_000 + began));
        }
        scene.breaker.answered();
        assert!(scene.is_closed());
    }

    #[test]
    fn what_an_earlier_connection_left_behind_does_not_count() {
        let mut scene = Scene::new();
        let began = scene.at(10);
        assert!(scene.breaker.failed(began, scene.at(20), true));
        scene.breaker.answered();
        assert!(!scene.is_closed(), "only a checked connection closes it");
        scene.breaker.close("another", scene.at(30));
        assert!(!scene.breaker.failed(began, scene.at(40), true));
        assert!(scene.is_closed() && !scene.breaker.is_suspicious());
    }

    #[test]
    fn a_server_that_says_that_it_cannot_be_used_is_believed_at_once() {
        let mut scene = Scene::new();
        let now = scene.at(10);
        assert!(scene.breaker.failed(now, now, true) && !scene.is_closed());
    }
}
