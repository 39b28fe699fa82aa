//! The bucket of one client in this replica, and its account with the bucket that all replicas share. It names no clock:
//! every time is in nanoseconds after one start. A request costs one token or more.
//!
//! A replica first spends tokens of a client without the shared bucket, up to an eighth of the burst. Then it reports
//! them, with the age of the first one, and asks for the tokens of each further request, as long as the shared bucket is not full again,
//! as far as this replica knows.
//!
//! In any period t, R replicas together therefore let a client spend at most `burst + rate * t + R * burst / 4` tokens. In
//! each replica, up to an eighth of the burst may be reported as if it had been spent before the period, and up to an
//! eighth is not yet reported at its end. A client that keeps to the rate is not refused, because the age of its tokens
//! counts as time in which they came back.

use super::Rate;

/// The size in bytes of a body for which a request costs one token more.
const TOKEN_BYTES: u64 = 8 * 1024;
/// The part of the burst that a replica spends without the shared bucket: one of so many.
const CREDIT: u32 = 8;
/// The age up to which a report tells the age of a token, and the time for which the shared bucket is remembered once it
/// is full: the time in which so many empty buckets are refilled.
const MEMORY: u64 = 10;

/// The figures of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The time in which one token is refilled.
    pub(super) interval: u64,
    /// The time in which an empty bucket is refilled.
    pub(super) capacity: u64,
    /// The tokens that a replica spends before it asks the shared bucket; `None` if there is none.
    credit: Option<u32>,
    /// The maximum cost of a request, so that the largest one passes as well, after a pause.
    most: u32,
}

impl Terms {
    /// Returns the figures of a limit.
    pub(super) fn of(rate: Rate, is_shared: bool) -> Self {
        let (interval, capacity) = rate.times();
        let credit = is_shared.then_some(rate.burst / CREDIT);
        Self {
            interval: super::nanoseconds(interval),
            capacity: super::nanoseconds(capacity),
            credit,
            most: rate.burst.max(1) - credit.unwrap_or(0),
        }
    }

    /// Returns the number of tokens that a request with so many bytes in its body costs.
    pub(super) fn cost(&self, bytes: u64) -> u32 {
        let cost = 1 + bytes / TOKEN_BYTES;
        self.most.min(cost.try_into().unwrap_or(u32::MAX))
    }

    /// Returns the time in which these tokens are refilled.
    pub(super) fn time_of(&self, tokens: u32) -> u64 {
        self.interval.saturating_mul(tokens.into())
    }

    /// Returns the time for which a full bucket is remembered, so that late reports count from their own time on.
    pub(super) fn memory(&self) -> u64 {
        self.capacity.saturating_mul(MEMORY)
    }
}

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BucketVerdict {
    /// It passes; the bucket is full again after this time.
    Passes(u64),
    /// It is refused; there are enough tokens after this time.
    Refused(u64),
    /// The shared bucket decides.
    Asks(Demand),
}

/// A question to the shared bucket for the tokens of a request, with a report of others. Only one question at a time has a
/// report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// The tokens that the request costs.
    pub(super) cost: u32,
    /// The tokens that were spent and not reported.
    pub(super) debt: u32,
    /// The time since the first of them.
    pub(super) age: u64,
}

/// The answer of the shared bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// The reported tokens that it has counted.
    pub(super) paid: u32,
    /// True if there were enough tokens.
    pub(super) passes: bool,
    /// The time until it is full again.
    pub(super) refill: u64,
}

/// The bucket of one client. It is stored as the time at which it will be full again (the generic cell rate algorithm).
#[derive(Debug, Default)]
pub(super) struct Bucket {
    full_at: u64,
    /// The time at which the shared bucket will be full again, as far as known.
    shared_full_at: u64,
    /// The tokens that were spent and not reported.
    debt: u32,
    /// The time of the first of them.
    since: u64,
    /// True until a report is answered.
    is_reporting: bool,
}

impl Bucket {
    /// Returns true if this replica's bucket is full.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.full_at <= now
    }

    /// Returns the time at which this replica's bucket is full again.
    pub(super) fn full_at(&self) -> u64 {
        self.full_at
    }

    /// Takes the tokens of a request. A refused one costs none.
    pub(super) fn take(&mut self, terms: &Terms, cost: u32, now: u64) -> BucketVerdict {
        let full_at = self.full_at.max(now).saturating_add(terms.time_of(cost));
        let wait = full_at.saturating_sub(now).saturating_sub(terms.capacity);
        if wait > 0 {
            return BucketVerdict::Refused(wait);
        }
        if let Some(credit) = terms.credit
            && !self.spend(credit, cost, now)
        {
            let wait = self.wait(terms, cost, now);
            if wait > 0 {
                return BucketVerdict::Refused(wait);
            }
            self.full_at = full_at;
            return BucketVerdict::Asks(self.demand(terms, cost, now));
        }
        self.full_at = full_at;
        BucketVerdict::Passes(self.refill(terms, now))
    }

    /// Spends tokens without the shared bucket. Returns false if there are not enough.
    fn spend(&mut self, credit: u32, cost: u32, now: u64) -> bool {
        let is_near_the_limit = self.is_reporting || now < self.shared_full_at;
        if is_near_the_limit || self.debt.saturating_add(cost) > credit {
            return false;
        }
        if self.debt == 0 {
            self.since = now;
        }
        self.debt += cost;
        true
    }

    fn demand(&mut self, terms: &Terms, cost: u32, now: u64) -> Demand {
        if self.debt == 0 || std::mem::replace(&mut self.is_reporting, true) {
            return Demand {
                cost,
                ..Demand::default()
            };
        }
        let age = now.saturating_sub(self.since);
        Demand {
            cost,
            debt: self.debt,
            age: age.min(terms.memory()),
        }
    }

    /// Takes note of an answer to a request of this cost, or of the lack of one: then the request passes, and this replica
    /// counts anew. Returns the time until the bucket is full again.
    ///
    /// # Errors
    /// Returns the time until there are enough tokens if the request is refused.
    pub(super) fn settle(
        &mut self,
        terms: &Terms,
        (cost, grant): (u32, Option<Grant>),
        now: u64,
    ) -> Result<u64, u64> {
        let Some(grant) = grant else {
            (self.debt, self.shared_full_at) = (0, 0);
            return Ok(self.refill(terms, now));
        };
        self.shared_full_at = now.saturating_add(grant.refill);
        self.debt = self.debt.saturating_sub(grant.paid);
        if !grant.passes {
            self.full_at = self.full_at.saturating_sub(terms.time_of(cost));
            return Err(self.wait(terms, cost, now).max(1));
        }
        Ok(self.refill(terms, now))
    }

    /// Ends a report, answered or not.
    pub(super) fn end_report(&mut self) {
        self.is_reporting = false;
    }

    /// Returns the time until the shared bucket can have the debt and these tokens.
    fn wait(&self, terms: &Terms, cost: u32, now: u64) -> u64 {
        let needed = terms.time_of(self.debt.saturating_add(cost));
        let full_at = self.shared_full_at.max(now).saturating_add(needed);
        full_at.saturating_sub(now.saturating_add(terms.capacity))
    }

    /// Returns the time until the emptier of the two buckets is full again, as far as known.
    fn refill(&self, terms: &Terms, now: u64) -> u64 {
        let debt = terms.time_of(self.debt);
        let shared = match self.debt {
            0 => self.shared_full_at,
            _ => self.shared_full_at.max(self.since).saturating_add(debt),
        };
        self.full_at.max(shared).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, time::Duration};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// The default limit of requests.
    const DEFAULT: Rate = Rate {
        requests: 50,
        period: Duration::from_secs(1),
        burst: 200,
    };

    fn rate(requests: u32, burst: u32) -> Rate {
        Rate {
            requests,
            burst,
            ..DEFAULT
        }
    }

    fn take(bucket: &mut Bucket, terms: &Terms, now: u64) -> Result<u64, u64> {
        match bucket.take(terms, 1, now) {
            BucketVerdict::Passes(refill) => Ok(refill),
            BucketVerdict::Refused(wait) => Err(wait),
            BucketVerdict::Asks(_) => panic!("asks"),
        }
    }

    /// A shared bucket that does what `shared.lua` does.
    #[derive(Default)]
    struct SharedBucket(u64);

    impl SharedBucket {
        fn answer(&mut self, terms: &Terms, demand: Demand, now: u64) -> Grant {
            let empty_at = now + terms.capacity;
            let room = |full_at: u64| (empty_at - full_at) / terms.interval;
            let mut full_at = self.0.max(now.saturating_sub(demand.age));
            let paid = u64::from(demand.debt).min(room(full_at));
            full_at += paid * terms.interval;
            let mut passes = false;
            if paid == u64::from(demand.debt) {
                full_at = full_at.max(now);
                let cost = u64::from(demand.cost);
                passes = room(full_at) >= cost;
                full_at += u64::from(passes) * cost * terms.interval;
            }
            self.0 = full_at;
            Grant {
                paid: paid as u32,
                passes,
                refill: full_at.saturating_sub(now),
            }
        }
    }

    /// Some replicas with one shared bucket, and one client of them.
    struct Replicas {
        terms: Terms,
        own: Vec<Bucket>,
        shared: SharedBucket,
        /// Answers on their way, each with its replica.
        answers: VecDeque<(usize, Demand, Grant)>,
        now: u64,
        /// The times at which tokens were spent.
        passed: Vec<u64>,
        asked: usize,
    }

    impl Replicas {
        fn new(number: usize, rate: Rate) -> Self {
            Self {
                terms: Terms::of(rate, true),
                own: std::iter::repeat_with(Bucket::default)
                    .take(number)
                    .collect(),
                shared: SharedBucket::default(),
                answers: VecDeque::new(),
                // So that no age reaches beyond the start.
                now: 3600 * SECOND,
                passed: Vec::new(),
                asked: 0,
            }
        }

        /// Sends a request to a replica. Returns the time to wait if the replica refuses it.
        fn request(&mut self, replica: usize) -> Option<u64> {
            self.request_of(replica, 1)
        }

        /// Sends a request of this cost to a replica.
        fn request_of(&mut self, replica: usize, cost: u32) -> Option<u64> {
            let cost = cost.min(self.terms.most);
            let spent = std::iter::repeat_n(self.now, cost as usize);
            match self.own[replica].take(&self.terms, cost, self.now) {
                BucketVerdict::Passes(_) => self.passed.extend(spent),
                BucketVerdict::Refused(wait) => return Some(wait),
                BucketVerdict::Asks(demand) => {
                    self.asked += 1;
                    let grant = self.shared.answer(&self.terms, demand, self.now);
                    if grant.passes {
                        self.passed.extend(spent);
                    }
                    self.answers.push_back((replica, demand, grant));
                }
            }
            None
        }

        /// Delivers the oldest answer, or loses it. Returns the time to wait if the request is refused.
        fn deliver(&mut self, is_lost: bool) -> Option<u64> {
            let (replica, demand, grant) = self.answers.pop_front()?;
            let bucket = &mut self.own[replica];
            let settled = match is_lost {
                true => Ok(0),
                false => bucket.settle(&self.terms, (demand.cost, Some(grant)), self.now),
            };
            if demand.debt > 0 {
                bucket.end_report();
            }
            settled.err()
        }

        /// Sends a request whose answer comes at once.
        fn ask(&mut self, replica: usize) -> Option<u64> {
            self.ask_of(replica, 1)
        }

        /// Sends a request of this cost whose answer comes at once.
        fn ask_of(&mut self, replica: usize, cost: u32) -> Option<u64> {
            let refused = self.request_of(replica, cost);
            refused.or_else(|| self.deliver(false))
        }

        /// Checks the bound in every period.
        fn check(&self, rate: Rate) -> Result<(), TestCaseError> {
            let credit = u64::from(self.terms.credit.unwrap());
            let slack = self.own.len() as u64 * 2 * credit;
            for (first, begin) in self.passed.iter().enumerate() {
                for (last, end) in self.passed.iter().enumerate().skip(first) {
                    let most = u64::from(rate.burst.max(1)) + (end - begin) / self.terms.interval;
                    let passed = (last - first) as u64;
                    prop_assert!(passed <= most + slack, "{passed} of {most} and {slack}");
                }
            }
            Ok(())
        }
    }

    #[test]
    fn a_burst_passes_then_tokens_come_back_one_by_one() {
        let terms = Terms::of(rate(1, 20), false);
        let mut bucket = Bucket::default();
        let passes = (0..30).filter(|_| take(&mut bucket, &terms, SECOND).is_ok());
        assert_eq!(passes.count(), 20);
        assert_eq!(take(&mut bucket, &terms, SECOND), Err(SECOND));
        let again = take(&mut bucket, &terms, 2 * SECOND);
        assert_eq!(again, Ok(20 * SECOND), "the bucket is empty again");
        assert!(take(&mut bucket, &terms, 2 * SECOND).is_err());
    }

    #[test]
    fn a_request_costs_a_token_more_for_each_8_kib_and_never_more_than_a_bucket_holds() {
        for (burst, is_shared, bytes, cost) in [
            (200, false, 0, 1),
            (200, false, 8191, 1),
            (200, false, 8192, 2),
            (200, true, 64 * 1024, 9),
            (200, true, u64::MAX, 175),
            (8, false, 128 * 1024, 8),
            (8, true, 128 * 1024, 7),
            (1, true, 128 * 1024, 1),
            (0, false, 128 * 1024, 1),
        ] {
            let terms = Terms::of(rate(1, burst), is_shared);
            assert_eq!(terms.cost(bytes), cost, "{burst}, {is_shared}, {bytes}");
        }
        let terms = Terms::of(rate(1, 20), false);
        let mut bucket = Bucket::default();
        let mut large = |now| bucket.take(&terms, 9, now);
        assert_eq!(large(0), BucketVerdict::Passes(9 * SECOND));
        assert_eq!(large(0), BucketVerdict::Passes(18 * SECOND));
        assert_eq!(large(0), BucketVerdict::Refused(7 * SECOND));
        assert_eq!(large(7 * SECOND), BucketVerdict::Passes(20 * SECOND));
    }

    #[test]
    fn a_refused_request_costs_no_token() {
        let terms = Terms::of(rate(1, 1), false);
        let mut bucket = Bucket::default();
        assert!(take(&mut bucket, &terms, 0).is_ok());
        for _ in 0..100 {
            assert!(take(&mut bucket, &terms, SECOND / 2).is_err());
        }
        assert!(take(&mut bucket, &terms, SECOND).is_ok());
    }

    #[test]
    fn a_request_that_the_shared_bucket_refuses_costs_no_token_either() {
        let mut replicas = Replicas::new(2, rate(1, 1));
        assert_eq!(replicas.ask(0), None);
        for _ in 0..100 {
            assert_eq!(replicas.ask(1), Some(SECOND));
        }
        assert_eq!(replicas.asked, 2, "a known refusal needs no question");
        replicas.now += SECOND;
        assert_eq!(replicas.ask(1), None);
        assert_eq!(replicas.passed.len(), 2);
    }

    #[test]
    fn a_client_far_from_its_limit_costs_no_question_and_one_that_keeps_to_the_rate_few() {
        let mut replicas = Replicas::new(1, DEFAULT);
        for _ in 0..25 {
            assert_eq!(replicas.request(0), None);
        }
        assert_eq!(replicas.asked, 0);
        let before = replicas.asked;
        for _ in 0..3500 {
            replicas.now += SECOND / 25;
            assert_eq!(replicas.ask(0), None);
        }
        // A credit of 25, and then a question, or a few until the bucket is full again.
        let asked = replicas.asked - before;
        assert!(asked <= 3500 / 20, "{asked}");
    }

    #[test]
    fn what_is_told_of_the_limit_counts_what_is_not_reported() {
        let terms = Terms::of(DEFAULT, true);
        let (mut replicas, interval) = (Replicas::new(2, DEFAULT), terms.interval);
        // The other replica has spent 100.
        while replicas.passed.len() < 100 {
            replicas.ask(0);
        }
        let spent = replicas.own[0].refill(&terms, replicas.now);
        assert_eq!(spent, 100 * interval);
        for _ in 0..26 {
            replicas.ask(1);
        }
        let known = replicas.own[1].refill(&terms, replicas.now) / interval;
        assert_eq!(known, 126);
    }

    #[test]
    fn without_an_answer_a_request_passes_and_the_replica_counts_by_itself() {
        let terms = Terms::of(rate(1, 8), true);
        let mut bucket = Bucket::default();
        let mut passed = 0;
        loop {
            match bucket.take(&terms, 1, 0) {
                BucketVerdict::Passes(_) => passed += 1,
                BucketVerdict::Refused(_) => break,
                BucketVerdict::Asks(_) => {
                    passed += u32::from(bucket.settle(&terms, (1, None), 0).is_ok());
                    bucket.end_report();
                }
            }
        }
        assert_eq!(passed, 8);
    }

    #[test]
    fn a_question_that_was_given_up_is_asked_again() {
        let terms = Terms::of(rate(1, 8), true);
        let mut bucket = Bucket::default();
        let mut asks = || match bucket.take(&terms, 1, 0) {
            BucketVerdict::Asks(demand) => Some(demand),
            _ => None,
        };
        assert_eq!(asks(), None);
        let report = asks().unwrap();
        assert_eq!(report.debt, 1);
        assert_eq!(asks().unwrap().debt, 0);
        bucket.end_report();
        let BucketVerdict::Asks(again) = bucket.take(&terms, 1, 0) else {
            panic!("does not ask");
        };
        assert_eq!(again, report);
    }

    proptest! {
        #[test]
        fn alone_never_more_than_the_burst_plus_the_rate_passes(steps in vec(0u64..SECOND, 1..300), burst in 1u32..30) {
            let terms = Terms::of(rate(10, burst), false);
            let (mut bucket, mut now, mut passed) = (Bucket::default(), 0, 0);
            for step in &steps {
                now += step;
                passed += u64::from(take(&mut bucket, &terms, now).is_ok());
            }
            prop_assert!(passed <= u64::from(burst) + now / (SECOND / 10) + 1);
        }

        #[test]
        fn together_replicas_exceed_the_burst_plus_the_rate_by_the_slack_at_most(
            steps in vec((0usize..6, 0u64..8, 0u8..20, 1u32..20), 1..900), number in 1usize..6, burst in 0u32..80, seconds in 0u64..4
        ) {
            let rate = rate(10, burst);
            let mut replicas = Replicas::new(number, rate);
            for (replica, pause, event, cost) in steps {
                // Mostly small requests.
                let cost = cost.saturating_sub(10).max(1);
                // Mostly many requests at once, and sometimes a pause in which tokens come back.
                replicas.now += if pause == 0 { seconds * SECOND / 4 } else { pause - 1 };
                match event {
                    0 => replicas.deliver(true),
                    1..8 => replicas.deliver(false),
                    _ => replicas.request_of(replica % number, cost),
                };
            }
            replicas.check(rate)?;
        }

        #[test]
        fn a_client_that_keeps_to_the_rate_is_never_refused(
            steps in vec((0usize..4, 0u64..4), 1..2000)
        ) {
            let mut replicas = Replicas::new(4, DEFAULT);
            for (replica, pause) in steps {
                replicas.now += SECOND / 50 + pause * SECOND / 10;
                prop_assert_eq!(replicas.ask(replica), None);
            }
        }

        #[test]
        fn one_who_waits_as_told_passes(
            steps in vec((0u64..SECOND / 16, 1u32..60), 1..300), burst in 0u32..40
        ) {
            let mut replicas = Replicas::new(1, rate(10, burst));
            for (pause, cost) in steps {
                replicas.now += pause;
                let cost = cost.saturating_sub(30).max(1);
                if let Some(wait) = replicas.ask_of(0, cost) {
                    prop_assert!(wait > 0);
                    replicas.now += wait;
                    prop_assert_eq!(replicas.ask_of(0, cost), None, "after {} ns", wait);
                }
            }
        }
    }
}
