//! The known state of one queue, a state machine: reports of the broker and decisions of reconciles change it. Every
//! time is the time since one fixed moment, which the caller chooses.

use std::time::Duration;

use super::{
    queue_state::{QueueState, Report},
    stack::{Drain, Draining},
    worker_demand::{WorkerCount, WorkerDemand},
};

/// Minimum time between two changed depths in the status.
const SHOW_EVERY: Duration = Duration::from_secs(30);
/// Failures in a row after which a broker counts as unreachable.
const FAILURE_THRESHOLD: u32 = 3;
/// Twice the maximum age of RabbitMQ's statistics, which it collects every 5 s.
const STATISTICS_LAG: Duration = Duration::from_secs(10);

/// The known state of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRecord {
    failures: u32,
    seen: QueueState,
    /// Time of the last report that the status shows.
    shown: Option<Duration>,
    /// Time of the last report, if the queue was empty in it.
    empty: Option<Duration>,
    /// True when jobs were left in the last report that has a depth.
    jobs: bool,
    /// Time since which no client can publish any more.
    closed: Option<Duration>,
    /// True while the queue is drained, by the last decision.
    draining: bool,
    /// True when the queue was drained and has not been wanted again.
    drained: bool,
    demand: WorkerDemand,
}

impl QueueRecord {
    /// Records a report of the broker, or the reason for which there is none. Returns true when the status should
    /// change.
    pub fn hear(&mut self, said: Result<Report, String>, now: Duration) -> bool {
        let mut report = match said {
            Ok(report) => report,
            Err(why) => return self.fail(why),
        };
        self.failures = 0;
        match (report.depth, report.busy.take()) {
            (Some(depth), busy) => self.demand.hear(depth, busy, now),
            (None, _) => self.demand.interrupt(),
        }
        let total = report.depth.map(|depth| depth.total());
        self.empty = (total == Some(0)).then_some(now);
        self.jobs = total.map_or(self.jobs, |total| total > 0);
        let follow = self.may_show(&report, now);
        if follow {
            self.shown = Some(now);
            let depth = report.depth.or(self.seen.depth());
            let room = report.room.or(self.seen.room());
            self.seen = QueueState::Report(Report {
                depth,
                room,
                ..report
            });
        }
        follow
    }

    /// Records that there is no report. Returns true when the status should change.
    fn fail(&mut self, why: String) -> bool {
        self.empty = None;
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURE_THRESHOLD {
            return false;
        }
        self.demand.interrupt();
        self.seen = match self.seen {
            QueueState::NeverReached(_) | QueueState::Unreachable(_) => return false,
            QueueState::Unknown => QueueState::NeverReached(why),
            QueueState::Report(_) => QueueState::Unreachable(why),
        };
        true
    }

    fn may_show(&self, report: &Report, now: Duration) -> bool {
        let QueueState::Report(seen) = &self.seen else {
            return true;
        };
        // A broker that has just started has no statistics, so the last known values stay.
        let known = (report.depth.or(seen.depth), report.room.or(seen.room));
        let rested = self.shown.is_none_or(|shown| now >= shown + SHOW_EVERY);
        let due = rested || seen.depth.is_none();
        let is_news =
            known != (seen.depth, seen.room) || report.disabled_flags != seen.disabled_flags;
        seen.alarm != report.alarm || (is_news && due)
    }

    /// Returns the state of the queue that the status shows.
    pub fn seen(&self) -> &QueueState {
        &self.seen
    }

    /// Returns true when the last report said that the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.empty.is_some()
    }

    /// Returns true when jobs were left in the last report that has a depth.
    pub fn has_jobs(&self) -> bool {
        self.jobs
    }

    /// Returns true when the last decision was to drain. Objects that are missing then were not removed by the operator.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Returns true when the queue is drained. The result stays true until the queue is wanted again, because its
    /// objects remain visible for a while after their deletion. `closed` is true when no client can publish any more;
    /// a report that the queue is empty counts only if it is from after that moment, and late enough that its
    /// statistics are not older.
    pub fn is_drained(&self, closed: bool) -> bool {
        let times = self.closed.zip(self.empty);
        let since = times.is_some_and(|(closed, empty)| empty >= closed + STATISTICS_LAG);
        self.drained || (closed && since)
    }

    /// Records the decision of a reconcile.
    pub fn decided(&mut self, drain: Drain, now: Duration) {
        self.draining = matches!(drain, Drain::Draining(_));
        match drain {
            Drain::Wanted => {
                self.drained = false;
                self.closed = None;
            }
            Drain::Skipped => self.closed = None,
            Drain::Draining(Draining { closed, .. }) => {
                self.closed = closed.then(|| self.closed.unwrap_or(now));
            }
            Drain::Drained => self.drained = true,
        }
    }

    /// Returns the demand for workers.
    pub fn demand(&self) -> &WorkerDemand {
        &self.demand
    }

    /// Records the number of workers that was applied; `None` if the spec states it.
    pub fn scaled(&mut self, count: Option<WorkerCount>) {
        self.demand.applied(count);
    }

    /// Forgets what the broker reported, because it is not queried any more.
    pub fn forget_broker(&mut self) {
        *self = Self {
            draining: self.draining,
            drained: self.drained,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::queue_state::Depth;

    /// A record and the time.
    #[derive(Default)]
    struct RecordScene {
        record: QueueRecord,
        now: Duration,
    }

    impl RecordScene {
        /// Records a report of this many jobs, `after` seconds later.
        fn holds(&mut self, after: u64, ready: i64) {
            self.now += Duration::from_secs(after);
            let depth = Some(Depth { ready, unacked: 0 });
            let report = Report {
                depth,
                ..Report::default()
            };
            self.record.hear(Ok(report), self.now);
        }

        /// Lets a reconcile decide. Returns true when it finds the queue drained.
        fn is_drained(&mut self, closed: bool) -> bool {
            let drained = self.record.is_drained(closed);
            let drain = if drained {
                Drain::Drained
            } else {
                Drain::Draining(Draining {
                    closed,
                    left: None,
                    workers: true,
                })
            };
            self.record.decided(drain, self.now);
            drained
        }
    }

    #[test]
    fn a_queue_is_drained_when_it_is_empty_well_after_the_last_publisher() {
        let mut scene = RecordScene::default();
        scene.holds(0, 0);
        assert!(!scene.is_drained(false), "the app publishes");
        assert!(!scene.is_drained(true), "empty before that");
        scene.holds(5, 0);
        assert!(!scene.is_drained(true), "old figures");
        scene.holds(5, 2);
        assert!(!scene.is_drained(true), "two are left");
        scene.holds(10, 0);
        assert!(scene.is_drained(true));
        scene.record.forget_broker();
        assert!(scene.is_drained(true), "it stays so");
        scene.record.decided(Drain::Wanted, scene.now);
        assert!(!scene.is_drained(true), "it is wanted again");
    }

    #[test]
    fn a_broker_that_falls_silent_keeps_the_jobs_of_its_last_report() {
        let mut scene = RecordScene::default();
        assert!(!scene.record.has_jobs(), "nothing is known");
        for (jobs, expected) in [(0, false), (2, true)] {
            scene.holds(1, jobs);
            assert_eq!(scene.record.has_jobs(), expected, "{jobs}");
        }
        for said in [Err("refused".to_owned()), Ok(Report::default())] {
            scene.record.hear(said, scene.now);
            assert!(scene.record.has_jobs());
        }
        scene.record.forget_broker();
        assert!(!scene.record.has_jobs());
    }

    #[test]
    fn a_broker_that_never_answered_is_told_from_one_that_did() {
        let mut scene = RecordScene::default();
        let fail = |scene: &mut RecordScene| {
            let said = Err("refused".to_owned());
            scene.record.hear(said, scene.now)
        };
        let why = || "refused".to_owned();
        assert_eq!(
            [(); 4].map(|()| fail(&mut scene)),
            [false, false, true, false]
        );
        assert_eq!(*scene.record.seen(), QueueState::NeverReached(why()));
        scene.holds(10, 0);
        assert_eq!(
            [(); 4].map(|()| fail(&mut scene)),
            [false, false, true, false]
        );
        assert_eq!(*scene.record.seen(), QueueState::Unreachable(why()));
    }

    #[test]
    fn a_drain_lasts_until_another_decision_and_outlives_the_broker() {
        let draining = Drain::Draining(Draining {
            closed: true,
            left: None,
            workers: true,
        });
        for end in [Drain::Wanted, Drain::Skipped, Drain::Drained] {
            let mut record = QueueRecord::default();
            assert!(!record.is_draining());
            record.decided(draining, Duration::ZERO);
            record.forget_broker();
            assert!(record.is_draining());
            record.decided(end, Duration::ZERO);
            assert!(!record.is_draining(), "{end:?}");
        }
    }

    #[test]
    fn a_publisher_that_returns_starts_the_wait_anew() {
        let mut scene = RecordScene::default();
        assert!(!scene.is_drained(true));
        scene.holds(20, 0);
        assert!(!scene.is_drained(false));
        assert!(!scene.is_drained(true));
    }

    #[test]
    fn a_drain_that_is_skipped_and_resumed_starts_the_wait_anew() {
        let mut scene = RecordScene::default();
        assert!(!scene.is_drained(true));
        scene.record.decided(Drain::Skipped, scene.now);
        scene.holds(20, 0);
        assert!(!scene.is_drained(true));
    }
}
