//! The demand for workers, a state machine: it remembers how many jobs the queue held and decides how many workers there
//! should be. Every time is the time since one fixed moment, which the caller chooses.
//!
//! More workers come at once. Fewer come only when the reports of a whole window agree on it, so a process that has just
//! started removes none.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use super::queue_state::Depth;
use crate::api::WorkersAutoscaling;

/// Longest window that the spec can ask for.
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);
/// Shortest window. The broker's statistics are several seconds old, and one report may miss a job that moves from the
/// queue to a worker, so that a window needs two of them.
const SHORTEST_WINDOW: Duration = Duration::from_secs(15);
/// Number of workers that a single step may add, however few there are.
const FIRST_STEP: i32 = 4;

/// A decided number of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCount {
    /// Number of workers.
    pub replicas: i32,
    /// Clients of the broker that process a job, if workers are to be removed: theirs are removed last.
    pub spared: Option<BTreeSet<String>>,
    /// Time of the report that it was decided by; each report permits one step.
    seen: Option<Duration>,
}

/// The demand for the workers of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerDemand {
    /// Numbers of jobs that no later report has reached, with their times. The first one in a window is its maximum.
    peaks: VecDeque<(Duration, i64)>,
    last: Option<Heard>,
    /// Time of the first report since which none is missing.
    since: Duration,
    /// The number that was applied last.
    applied: Option<WorkerCount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Heard {
    at: Duration,
    depth: Depth,
    busy: Option<BTreeSet<String>>,
}

impl WorkerDemand {
    /// Records a report of the broker: the depth of the queue and, if they are known, the clients that process a job.
    pub fn hear(&mut self, depth: Depth, busy: Option<BTreeSet<String>>, now: Duration) {
        if self.last.is_none() {
            self.since = now;
        }
        let jobs = depth.total();
        while self.peaks.back().is_some_and(|(_, peak)| *peak <= jobs) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now, jobs));
        let oldest = now.saturating_sub(LONGEST_WINDOW);
        while self.peaks.front().is_some_and(|(time, _)| *time < oldest) {
            self.peaks.pop_front();
        }
        let at = now;
        self.last = Some(Heard { at, depth, busy });
    }

    /// Forgets the reports, because some are missing: the queue may have held any number of jobs meanwhile.
    pub fn interrupt(&mut self) {
        self.peaks.clear();
        self.last = None;
    }

    /// Records the number of workers that was applied; `None` if the spec states it.
    pub fn applied(&mut self, count: Option<WorkerCount>) {
        self.applied = count;
    }

    /// Decides on the number of workers. `live` is the number that the cluster has, which counts until one was applied.
    pub fn decide(&self, limits: &WorkersAutoscaling, live: Option<i32>) -> WorkerCount {
        let applied = self.applied.as_ref();
        let current = applied.map(|applied| applied.replicas).or(live);
        let current = current.unwrap_or(limits.min_replicas);
        let seen = applied.and_then(|applied| applied.seen);
        let news = self.last.as_ref().filter(|last| seen != Some(last.at));
        let replicas = news.map_or(current, |last| self.step(limits, current, last));
        let replicas = replicas.max(limits.min_replicas);
        let busy = self.last.as_ref().and_then(|last| last.busy.clone());
        WorkerCount {
            replicas,
            // Until the cluster has fewer, the next reconcile must know it as well.
            spared: busy.filter(|_| live.is_some_and(|live| replicas < live)),
            seen: self.last.as_ref().map(|last| last.at).or(seen),
        }
    }

    /// Returns true when the last report asks for another number than the applied one.
    pub fn is_due(&self, limits: &WorkersAutoscaling) -> bool {
        let applied = self.applied.as_ref();
        applied.is_some_and(|applied| self.decide(limits, None).replicas != applied.replicas)
    }

    /// Returns true when fewer workers would do, so that it matters which of them process a job.
    pub fn has_too_many(&self, limits: &WorkersAutoscaling) -> bool {
        let (applied, last) = (self.applied.as_ref(), self.last.as_ref());
        applied.zip(last).is_some_and(|(applied, last)| {
            self.lowest(limits, last)
                .is_some_and(|lowest| lowest < applied.replicas)
        })
    }

    /// Returns the next number of workers. A step at most doubles it, or adds a few to a small one, and at most halves it.
    fn step(&self, limits: &WorkersAutoscaling, current: i32, last: &Heard) -> i32 {
        let need = need(limits, last.depth.total());
        if need >= current {
            return need.min(current.saturating_add(current.max(FIRST_STEP)));
        }
        match self.lowest(limits, last) {
            Some(lowest) if last.busy.is_some() => lowest.max(current / 2).min(current),
            _ => current,
        }
    }

    /// Returns the smallest number of workers that would have been enough during the whole window, and of which none
    /// processes a job now; `None` while the window is not full.
    fn lowest(&self, limits: &WorkersAutoscaling, last: &Heard) -> Option<i32> {
        let window = u64::try_from(limits.stabilization_window_seconds).unwrap_or_default();
        let window = Duration::from_secs(window).max(SHORTEST_WINDOW);
        if last.at < self.since + window {
            return None;
        }
        let begin = last.at.saturating_sub(window);
        let mut peaks = self.peaks.iter();
        let peak = peaks.find(|(time, _)| *time >= begin);
        let jobs = peak.map_or(last.depth.total(), |(_, jobs)| *jobs);
        let busy = i32::try_from(last.depth.unacked).unwrap_or(i32::MAX);
        Some(need(limits, jobs).max(busy.min(limits.max_replicas)))
    }
}

/// Returns the number of workers for this many jobs.
fn need(limits: &WorkersAutoscaling, jobs: i64) -> i32 {
    let each = i64::from(limits.jobs_per_worker.max(1));
    let workers = jobs.max(0).saturating_add(each - 1) / each;
    let workers = i32::try_from(workers).unwrap_or(i32::MAX);
    workers.min(limits.max_replicas).max(limits.min_replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workers of a queue, and the time.
    struct DemandScene {
        limits: WorkersAutoscaling,
        demand: WorkerDemand,
        workers: i32,
        now: Duration,
    }

    impl DemandScene {
        /// Begins with workers of an operator that has just started: from none to 20, one for 10 jobs, and fewer after
        /// a minute.
        fn with(workers: i32) -> Self {
            let mut scene = Self {
                limits: WorkersAutoscaling {
                    min_replicas: 0,
                    max_replicas: 20,
                    jobs_per_worker: 10,
                    stabilization_window_seconds: 60,
                },
                demand: WorkerDemand::default(),
                workers,
                now: Duration::from_secs(1000),
            };
            scene.reconcile();
            scene
        }

        fn reconcile(&mut self) -> i32 {
            let count = self.demand.decide(&self.limits, Some(self.workers));
            self.workers = count.replicas;
            self.demand.applied(Some(count));
            self.workers
        }

        fn report(&mut self, ready: i64, unacked: i64) {
            self.now += Duration::from_secs(10);
            let busy = self.demand.has_too_many(&self.limits).then(BTreeSet::new);
            let depth = Depth { ready, unacked };
            self.demand.hear(depth, busy, self.now);
        }

        /// Returns the number of workers after a report.
        fn after(&mut self, ready: i64, unacked: i64) -> i32 {
            self.report(ready, unacked);
            self.reconcile()
        }

        /// Returns the numbers of workers after as many reports of the same depth.
        fn while_it_holds(&mut self, jobs: i64, reports: usize) -> Vec<i32> {
            (0..reports).map(|_| self.after(jobs, 0)).collect()
        }
    }

    #[test]
    fn the_first_job_starts_a_worker_at_once() {
        let mut scene = DemandScene::with(0);
        assert_eq!(scene.while_it_holds(0, 10), [0; 10]);
        scene.report(1, 0);
        assert!(scene.demand.is_due(&scene.limits));
        assert_eq!(scene.reconcile(), 1);
        assert!(!scene.demand.is_due(&scene.limits));
    }

    #[test]
    fn workers_double_with_each_report_up_to_the_need_and_the_limit() {
        let mut scene = DemandScene::with(0);
        assert_eq!(scene.while_it_holds(100_000, 4), [4, 8, 16, 20]);
        let mut scene = DemandScene::with(3);
        assert_eq!(scene.while_it_holds(41, 2), [5, 5]);
    }

    #[test]
    fn a_second_reconcile_by_the_same_report_takes_no_second_step() {
        let mut scene = DemandScene::with(0);
        assert_eq!(scene.after(100_000, 0), 4);
        assert_eq!(scene.reconcile(), 4);
    }

    #[test]
    fn workers_go_only_when_the_maximum_of_the_window_has_fallen() {
        let mut scene = DemandScene::with(0);
        assert_eq!(scene.after(40, 0), 4);
        // The peak of 40 jobs leaves the window after a minute. The report after that names the busy workers.
        assert_eq!(scene.while_it_holds(0, 7), [4; 7]);
        assert_eq!(scene.while_it_holds(0, 4), [2, 1, 0, 0]);
        // A short rest removes none.
        assert_eq!(scene.after(40, 0), 4);
        assert_eq!(scene.while_it_holds(0, 5), [4; 5]);
        assert_eq!(scene.after(40, 0), 4);
        assert_eq!(scene.while_it_holds(0, 5), [4; 5]);
    }

    #[test]
    fn an_operator_that_has_just_started_removes_no_worker_before_a_whole_window() {
        let mut scene = DemandScene::with(8);
        assert_eq!(scene.while_it_holds(0, 7), [8; 7]);
        assert_eq!(scene.after(0, 0), 4);
    }

    #[test]
    fn a_gap_in_the_reports_begins_the_window_anew() {
        let mut scene = DemandScene::with(8);
        assert_eq!(scene.while_it_holds(0, 6), [8; 6]);
        scene.demand.interrupt();
        assert_eq!(scene.reconcile(), 8);
        assert_eq!(scene.while_it_holds(0, 7), [8; 7]);
        assert_eq!(scene.after(0, 0), 4);
    }

    #[test]
    fn one_report_of_an_empty_queue_removes_no_worker_whatever_the_window() {
        let mut scene = DemandScene::with(0);
        scene.limits.stabilization_window_seconds = 0;
        assert_eq!(scene.while_it_holds(0, 3), [0; 3]);
        assert_eq!(scene.after(1, 0), 1);
        assert_eq!(scene.after(0, 0), 1, "its worker has just taken the job");
        assert_eq!(scene.after(0, 1), 1);
        assert_eq!(scene.while_it_holds(0, 4), [1, 1, 0, 0]);
    }

    #[test]
    fn workers_that_process_a_job_stay() {
        let mut scene = DemandScene::with(8);
        for _ in 0..20 {
            scene.after(0, 3);
        }
        assert_eq!(scene.workers, 3);
        // One would be enough, but the other two would have to give their jobs back.
        assert_eq!(scene.after(0, 1), 3, "the next report names the busy one");
        assert_eq!(scene.after(0, 1), 1);
    }

    #[test]
    fn without_the_names_of_the_busy_workers_none_is_removed() {
        let mut scene = DemandScene::with(8);
        for _ in 0..20 {
            scene.now += Duration::from_secs(10);
            scene.demand.hear(Depth::default(), None, scene.now);
            assert_eq!(scene.reconcile(), 8);
        }
        assert!(scene.demand.has_too_many(&scene.limits));
    }

    #[test]
    fn the_busy_workers_are_named_until_the_cluster_has_fewer() {
        let mut scene = DemandScene::with(2);
        while scene.workers == 2 {
            scene.report(0, 0);
            let busy = BTreeSet::from(["shortener-worker acme-worker-a".to_owned()]);
            scene.demand.hear(Depth::default(), Some(busy), scene.now);
            scene.reconcile();
        }
        assert_eq!(scene.workers, 1);
        let spared = |live| scene.demand.decide(&scene.limits, Some(live)).spared;
        assert_eq!(spared(2).map(|busy| busy.len()), Some(1), "the watch lags");
        assert_eq!(spared(1), None);
    }

    #[test]
    fn edited_limits_count_at_once_upwards() {
        let mut scene = DemandScene::with(0);
        scene.limits.min_replicas = 3;
        assert_eq!(scene.reconcile(), 3);
    }

    #[test]
    fn hours_of_a_steady_queue_are_remembered_in_one_number() {
        let mut scene = DemandScene::with(1);
        for _ in 0..2000 {
            scene.after(5, 0);
        }
        assert_eq!(scene.demand.peaks.len(), 1);
        for jobs in (0..2000).rev() {
            scene.after(jobs, 0);
        }
        assert!(scene.demand.peaks.len() <= 361);
    }
}
