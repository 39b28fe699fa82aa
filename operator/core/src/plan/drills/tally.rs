//! The requests of a drill, counted. The requests of a kind follow each other, so their answers come in order.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::Timestamp;

use super::promise::{GAP_LIMIT, kinds, promise};
use crate::api::{
    DrillPromise, DrillRequest, DrilledStore, JobReport, RequestReport, ShortenerDrillStatus,
};

/// Name of the status of a rate limit among the answers.
const LIMITED: &str = "429";
/// Name of the status of a store that is away.
const UNAVAILABLE: &str = "503";
/// Name of a request without an answer.
const NO_ANSWER: &str = "NoAnswer";
/// One of so many requests of a kind may be limited, or get no answer, before nothing is known of the kind.
const RARELY: i64 = 10;

/// Largest number that is read from a report, which who edits the status can change. Sums of such numbers fit 64 bits.
const MOST: i64 = 1 << 40;

/// Time for which every request has to be served before the drill is complete.
const STEADY: Duration = Duration::from_secs(10);

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was served, with this status.
    Served(u16),
    /// It was answered with another status.
    Status(u16),
    /// The status was right, and the content was that of something else.
    WrongContent,
    /// There was no answer in time.
    None,
}

impl Answer {
    /// Returns the name in the counts.
    fn name(self) -> String {
        match self {
            Self::Served(status) | Self::Status(status) => status.to_string(),
            Self::WrongContent => "WrongContent".to_owned(),
            Self::None => NO_ANSWER.to_owned(),
        }
    }
}

/// The requests of one kind.
#[derive(Clone, Debug)]
struct Kind {
    promise: DrillPromise,
    sent: i64,
    served: i64,
    answers: BTreeMap<String, i64>,
    longest_gap: i64,
    recovery: Option<i64>,
    /// Time of the first request since the last one that was served.
    failing_since: Option<Timestamp>,
}

/// What is known of the requests of a drill.
#[derive(Clone, Debug)]
pub struct Tally {
    kinds: BTreeMap<DrillRequest, Kind>,
    /// Time at which the store is given back.
    end: Timestamp,
    /// The jobs, if any are sent.
    pub jobs: Option<JobReport>,
    /// Time without requests in milliseconds.
    pub unobserved: i64,
    /// Time of the last request.
    observed: Timestamp,
    /// True when the pods of the store were seen to be gone, or another operator may have seen it.
    seen_away: bool,
}

impl Tally {
    /// Returns the tally of a drill that begins, and ends at `end`.
    pub fn new(
        store: DrilledStore,
        (jobs, cached): (bool, bool),
        (now, end): (Timestamp, Timestamp),
    ) -> Self {
        let kind = |request| Kind {
            promise: promise(store, request, cached),
            sent: 0,
            served: 0,
            answers: BTreeMap::new(),
            longest_gap: 0,
            recovery: None,
            failing_since: None,
        };
        Self {
            kinds: kinds(jobs)
                .map(|(request, _)| (request, kind(request)))
                .collect(),
            end,
            jobs: jobs.then(JobReport::default),
            unobserved: 0,
            observed: now,
            seen_away: false,
        }
    }

    /// Returns the tally of a drill that another operator has begun, from its last report. Nothing is known of the time since
    /// then, nor of the jobs whose results were awaited.
    pub fn resumed(mut self, status: &ShortenerDrillStatus, now: Timestamp) -> Self {
        let known = |number: i64| number.clamp(0, MOST);
        for report in &status.requests {
            if let Some(kind) = self.kinds.get_mut(&report.request) {
                kind.promise = report.promise;
                kind.sent = known(report.sent);
                kind.served = known(report.served);
                let answers = report.answers.iter();
                kind.answers = answers
                    .map(|(name, count)| (name.clone(), known(*count)))
                    .collect();
                kind.longest_gap = known(report.longest_gap_milliseconds);
            }
        }
        if let (Some(jobs), Some(reported)) = (&mut self.jobs, status.jobs) {
            *jobs = JobReport {
                accepted: known(reported.accepted),
                done: known(reported.done),
                lost: known(reported.lost),
                repeated: known(reported.repeated),
                unknown: 0,
            };
            jobs.unknown = jobs.accepted - jobs.done - jobs.lost;
        }
        let since = status
            .observed_until
            .as_ref()
            .or(status.start_time.as_ref());
        let missed = since.map_or(0, |since| milliseconds(since.0, now));
        self.unobserved = known(status.unobserved_seconds) * 1000 + missed;
        self.observed = now;
        self.seen_away = true;
        self
    }

    /// Counts the answer to a request that was sent at `at`.
    pub fn count(&mut self, request: DrillRequest, at: Timestamp, answer: Answer) {
        self.observed = self.observed.max(at);
        let end = self.end;
        let Some(kind) = self.kinds.get_mut(&request) else {
            return;
        };
        kind.sent += 1;
        *kind.answers.entry(answer.name()).or_default() += 1;
        match answer {
            // A rate limit says nothing about the service.
            Answer::Status(429) => {}
            Answer::Served(_) => {
                kind.served += 1;
                kind.longest_gap = kind.gap_until(at);
                kind.failing_since = None;
                if at >= end {
                    kind.recovery.get_or_insert(milliseconds(end, at));
                }
            }
            Answer::Status(_) | Answer::WrongContent | Answer::None => {
                kind.failing_since.get_or_insert(at);
                kind.recovery = None;
            }
        }
    }

    /// Sets the time at which the store is given back.
    pub fn ends(&mut self, at: Timestamp) {
        self.end = self.end.min(at);
    }

    /// Remembers that the pods of the store are gone.
    pub fn sees_away(&mut self) {
        self.seen_away = true;
    }

    /// Returns the time of the last request.
    pub fn observed_until(&self) -> Timestamp {
        self.observed
    }

    /// Returns true when every request has been served for a while. No more jobs are sent then, and the results of the others
    /// are awaited.
    pub fn is_steady(&self, now: Timestamp) -> bool {
        let since = milliseconds(self.end, now);
        self.recovery()
            .is_some_and(|recovery| since >= recovery + duration(STEADY))
    }

    /// Returns the milliseconds from the end of the drill after which every request was served, if that is so.
    fn recovery(&self) -> Option<i64> {
        let kinds = self.kinds.values();
        kinds
            .map(|kind| kind.recovery)
            .try_fold(0, |longest, recovery| Some(longest.max(recovery?)))
    }

    /// Returns the number of accepted jobs whose results are awaited.
    pub fn awaited_jobs(&self) -> i64 {
        let jobs = self.jobs.unwrap_or_default();
        jobs.accepted - jobs.done - jobs.lost - jobs.unknown
    }

    /// Returns the report of every kind. `over` is true when no more requests are sent: each should be served again then, unless
    /// nothing is known for sure.
    pub(super) fn reports(&self, now: Timestamp, over: bool) -> Vec<RequestReport> {
        let recovers = over && self.doubt().is_none();
        let kinds = self.kinds.iter();
        kinds
            .map(|(request, kind)| RequestReport {
                request: *request,
                promise: kind.promise,
                kept: kind.keeps(now) && !(recovers && kind.recovery.is_none()),
                sent: kind.sent,
                served: kind.served,
                answers: kind.answers.clone(),
                longest_gap_milliseconds: kind.gap_until(now),
                recovery_milliseconds: kind.recovery,
            })
            .collect()
    }

    /// Returns true when requests of every kind often got no answer: the operator does not reach the gateway.
    pub(super) fn is_unreached(&self) -> bool {
        self.kinds.values().all(|kind| kind.is_often(NO_ANSWER))
    }

    /// Returns the reason for which a good report proves nothing, if there is one.
    pub(super) fn doubt(&self) -> Option<String> {
        let seconds = self.unobserved / 1000;
        if self.kinds.values().any(|kind| kind.sent == 0) {
            return Some("not every kind of request was sent".to_owned());
        }
        if self.kinds.values().any(|kind| kind.is_often(LIMITED)) {
            return Some("rate limits refused requests of the operator".to_owned());
        }
        if self.unobserved > duration(GAP_LIMIT) {
            return Some(format!(
                "no requests were sent for {seconds} s, because the operator was replaced"
            ));
        }
        let stayed = "the store was never seen to be away: see the conditions of the stack";
        (!self.was_away()).then(|| stayed.to_owned())
    }

    /// Returns true when the store was away: some of the requests that need it got 503. If all are promised to be served, only
    /// the state of its pods shows it.
    fn was_away(&self) -> bool {
        let needs = |kind: &&Kind| kind.promise == DrillPromise::Unavailable;
        let mut needing = self.kinds.values().filter(needs).peekable();
        match needing.peek() {
            Some(_) => needing.any(|kind| kind.answers.contains_key(UNAVAILABLE)),
            None => self.seen_away,
        }
    }
}

impl Kind {
    /// Returns true when many requests got an answer of this name.
    fn is_often(&self, name: &str) -> bool {
        let count = self.answers.get(name).copied().unwrap_or_default();
        count * RARELY > self.sent
    }

    /// Returns the longest time without a request that was served.
    fn gap_until(&self, now: Timestamp) -> i64 {
        let open = self
            .failing_since
            .map_or(0, |since| milliseconds(since, now));
        self.longest_gap.max(open)
    }

    fn keeps(&self, now: Timestamp) -> bool {
        match self.promise {
            DrillPromise::Served => self.gap_until(now) <= duration(GAP_LIMIT),
            DrillPromise::Unavailable => {
                let silent = (!self.is_often(NO_ANSWER)).then_some(NO_ANSWER);
                let known = [UNAVAILABLE, LIMITED].into_iter().chain(silent);
                let refused = known.filter_map(|name| self.answers.get(name));
                self.served + refused.sum::<i64>() == self.sent
            }
        }
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond() - from.as_millisecond()
}

fn duration(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
