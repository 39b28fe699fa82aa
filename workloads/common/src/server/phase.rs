//! The phase of a connection: shared by its stream, its service and the body of its request, and by the choice of the
//! connection that is closed for a new one.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::AbortHandle, time::Instant};

use super::MAX_HEAD;
use crate::budget::{Budget, Share};

/// No byte has arrived on this connection yet.
pub(super) const NEW: u8 = 0;
/// The first bytes of a request head have arrived.
pub(super) const HEAD: u8 = 1;
/// A request is being handled; its body and its handler have timeouts of their own.
pub(super) const BUSY: u8 = 2;
/// The handler waits for more of the request's body.
pub(super) const BODY: u8 = 3;
/// The response is ready. It may not have been sent yet.
pub(super) const ANSWERED: u8 = 4;
/// Between two requests.
pub(super) const IDLE: u8 = 5;
/// The connection is about to be closed for a new one. This phase has no end.
pub(super) const GONE: u8 = 6;

/// The size from which on a request head is large, in bytes. A usual one fits into the first buffer of the connection.
pub(super) const SMALL_HEAD: usize = 8 * 1024;
/// The length up to which a body that no handler reads is skipped, in bytes. It has usually arrived with its head.
const SMALL_BODY: u64 = 8 * 1024;
/// The memory of a large head besides the first buffer, in bytes. The connection keeps its buffer until it ends.
const LARGE_HEAD: usize = MAX_HEAD - SMALL_HEAD;
/// The time after which a client counts as slow that has not completed its request, or has not read its response.
pub(super) const SLOW: Duration = Duration::from_secs(2);

/// The wish for room, and the news that there may be some.
pub(super) struct Vacancy {
    wanted: AtomicBool,
    news: Notify,
    /// The time from which the times of all connections are counted.
    start: Instant,
}

impl Vacancy {
    pub(super) fn new() -> Self {
        Self {
            wanted: AtomicBool::new(false),
            news: Notify::new(),
            start: Instant::now(),
        }
    }

    /// Asks for news, or no longer. Connections that begin to wait after this give them; others have to be looked for
    /// afterwards.
    pub(super) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::SeqCst);
    }

    /// Waits for news.
    pub(super) async fn heard(&self) {
        self.news.notified().await;
    }

    /// Tells that there may be room.
    pub(super) fn tell(&self) {
        if self.wanted.load(Ordering::SeqCst) {
            self.news.notify_one();
        }
    }

    fn since_start(&self, time: Instant) -> u64 {
        let time = time.saturating_duration_since(self.start);
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }
}

/// The phase of a connection; cheap to clone.
#[derive(Clone)]
pub(super) struct Phase(Arc<Shared>);

struct Shared {
    phase: AtomicU8,
    /// The time from which on the client has been waited for, in microseconds after the start.
    since: AtomicU64,
    /// True while the client does not read a response.
    stuck: AtomicBool,
    /// True from the head of a request with a large body until that is read to its end.
    unread: AtomicBool,
    task: OnceLock<AbortHandle>,
    /// The share of a connection that had a large head.
    large: OnceLock<Share>,
    heads: Budget,
    vacancy: Arc<Vacancy>,
}

/// A connection that may be closed for a new one. The smallest is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    rank: Rank,
    since: u64,
    phase: u8,
}

/// The order in which connections are closed. Within a rank, the oldest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The client has not completed its request, or has not read its response, for a while.
    Slow,
    /// The client may send another request.
    Idle,
    /// The client has just begun.
    Young,
}

impl Phase {
    /// Returns the phase of a new connection, with the memory for large heads.
    pub(super) fn new(heads: Budget, vacancy: Arc<Vacancy>) -> Self {
        let since = vacancy.since_start(Instant::now());
        Self(Arc::new(Shared {
            phase: AtomicU8::new(NEW),
            since: AtomicU64::new(since),
            stuck: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            task: OnceLock::new(),
            large: OnceLock::new(),
            heads,
            vacancy,
        }))
    }

    /// Sets the task of the connection. Without it, the connection is not closed for another one.
    pub(super) fn runs_as(&self, task: AbortHandle) {
        // This is done once for each connection.
        let _ = self.0.task.set(task);
    }

    pub(super) fn get(&self) -> u8 {
        self.0.phase.load(Ordering::SeqCst)
    }

    /// Goes from one phase to another. Returns false if the connection is not in the first one (any more).
    fn step(&self, from: u8, to: u8) -> bool {
        let order = Ordering::SeqCst;
        self.0
            .phase
            .compare_exchange(from, to, order, order)
            .is_ok()
    }

    fn wait_since(&self, time: Instant) {
        let since = self.0.vacancy.since_start(time);
        self.0.since.store(since, Ordering::Relaxed);
    }

    /// Records the first byte of a head after this phase, and its time if the connection is not new. Returns false if
    /// the connection is about to be closed.
    pub(super) fn begin_head(&self, after: u8, time: Option<Instant>) -> bool {
        if let Some(time) = time {
            self.wait_since(time);
        }
        self.step(after, HEAD)
    }

    /// Takes memory for a large head. Returns false if there is none.
    pub(super) fn enlarge(&self) -> bool {
        let shared = &*self.0;
        if shared.large.get().is_some() {
            return true;
        }
        let share = shared.heads.take(LARGE_HEAD);
        share.is_some_and(|share| shared.large.set(share).is_ok())
    }

    /// Returns true if the connection had a large head, and memory for those of others becomes scarce.
    pub(super) fn crowds(&self) -> bool {
        let heads = &self.0.heads;
        self.0.large.get().is_some() && heads.used() > heads.limit() / 2
    }

    /// Records that the head of a request is complete, whose body has at most this length in bytes if it tells. Returns
    /// false if the connection is about to be closed.
    pub(super) fn begin_request(&self, body: Option<u64>) -> bool {
        let is_large = body.is_none_or(|length| length > SMALL_BODY);
        self.0.unread.store(is_large, Ordering::Relaxed);
        self.unless_gone(BUSY)
    }

    /// Records that the body was read to its end.
    pub(super) fn end_body(&self) {
        self.0.unread.store(false, Ordering::Relaxed);
    }

    /// Returns true if the connection ends after this response, because what is left of a large body would be taken for
    /// the next request. Without a word, a proxy would send that into a connection that is being closed.
    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Relaxed)
    }

    /// Records that the handler waits for the body, and has done so since this time.
    pub(super) fn await_body(&self, since: Instant) {
        self.wait_since(since);
        if self.step(BUSY, BODY) {
            self.0.vacancy.tell();
        }
    }

    /// Records that more of the body has arrived. Returns false if the connection is about to be closed.
    pub(super) fn resume(&self) -> bool {
        self.step(BODY, BUSY) || self.get() != GONE
    }

    /// Records that the response is ready.
    pub(super) fn end_request(&self) {
        let _ = self.unless_gone(ANSWERED);
    }

    /// Records that the connection waits for another request.
    pub(super) fn rest(&self, time: Instant) {
        self.wait_since(time);
        if self.step(ANSWERED, IDLE) {
            self.0.vacancy.tell();
        }
    }

    /// Records that the client does not read its response, since this time; or that it does, without a time.
    pub(super) fn set_stuck(&self, since: Option<Instant>) {
        if let Some(time) = since {
            self.wait_since(time);
        }
        self.0.stuck.store(since.is_some(), Ordering::SeqCst);
        self.0.vacancy.tell();
    }

    fn unless_gone(&self, to: u8) -> bool {
        let mut phase = self.get();
        while phase != GONE {
            if self.step(phase, to) {
                return true;
            }
            phase = self.get();
        }
        false
    }

    /// Returns the claim to this connection at this time; `None` while a request is handled, or a response is read.
    pub(super) fn claim(&self, now: Instant) -> Option<Claim> {
        let shared = &*self.0;
        let phase = self.get();
        let since = shared.since.load(Ordering::Relaxed);
        let age = shared.vacancy.since_start(now).saturating_sub(since);
        let stuck = shared.stuck.load(Ordering::SeqCst);
        let slow = u128::from(age) >= SLOW.as_micros();
        let rank = match phase {
            ANSWERED | IDLE if stuck && slow => Rank::Slow,
            ANSWERED | IDLE if stuck => return None,
            IDLE => Rank::Idle,
            NEW | HEAD | BODY if slow => Rank::Slow,
            NEW | HEAD | BODY => Rank::Young,
            _ => return None,
        };
        shared.task.get().map(|_| Claim { rank, since, phase })
    }

    /// Closes the connection. Returns false if its phase is not that of the claim any more.
    pub(super) fn close(&self, claim: Claim) -> bool {
        let closes = self.step(claim.phase, GONE);
        if closes && let Some(task) = self.0.task.get() {
            // From now on neither the stream nor the service does anything.
            task.abort();
        }
        closes
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn phase() -> Phase {
        Phase::new(Budget::new(2 * LARGE_HEAD), Arc::new(Vacancy::new()))
    }

    /// Returns a connection whose task waits for ever.
    fn connection() -> Phase {
        let phase = phase();
        phase.runs_as(tokio::spawn(std::future::pending::<()>()).abort_handle());
        phase
    }

    fn rank(phase: &Phase) -> Option<Rank> {
        phase.claim(Instant::now()).map(|claim| claim.rank)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_closed_while_it_waits_for_its_client() {
        assert_eq!(rank(&phase()), None, "it has no task yet");
        let phase = connection();
        assert_eq!(rank(&phase), Some(Rank::Young));
        assert!(phase.begin_head(NEW, None));
        advance(SLOW).await;
        assert_eq!(rank(&phase), Some(Rank::Slow));
        assert!(phase.begin_request(Some(0)));
        assert_eq!(rank(&phase), None);
        phase.await_body(Instant::now());
        assert_eq!(rank(&phase), Some(Rank::Young));
        advance(SLOW).await;
        assert_eq!(rank(&phase), Some(Rank::Slow));
        assert!(phase.resume());
        assert_eq!(rank(&phase), None);
        phase.end_request();
        assert_eq!(rank(&phase), None, "the response may not have been sent");
        phase.set_stuck(Some(Instant::now()));
        phase.rest(Instant::now());
        assert_eq!(rank(&phase), None, "the client may only be a little slow");
        advance(SLOW).await;
        assert_eq!(rank(&phase), Some(Rank::Slow));
        phase.set_stuck(None);
        assert_eq!(rank(&phase), Some(Rank::Idle));
        assert!(phase.begin_head(IDLE, Some(Instant::now())));
        assert_eq!(rank(&phase), Some(Rank::Young));
    }

    #[tokio::test]
    async fn a_connection_whose_client_has_sent_something_meanwhile_is_not_closed() {
        let phase = connection();
        let claim = phase.claim(Instant::now()).unwrap();
        assert!(phase.begin_head(NEW, None));
        assert!(!phase.close(claim));
        assert!(phase.begin_request(Some(0)));
    }

    #[tokio::test]
    async fn a_connection_that_is_closed_begins_nothing() {
        for body in [false, true] {
            let phase = connection();
            if body {
                assert!(phase.begin_request(Some(0)));
                phase.await_body(Instant::now());
            }
            assert!(phase.close(phase.claim(Instant::now()).unwrap()));
            assert!(
                !phase.begin_head(NEW, None) && !phase.begin_request(Some(0)) && !phase.resume()
            );
            phase.end_request();
            assert_eq!((phase.get(), rank(&phase)), (GONE, None));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_go_first_then_idle_ones_and_the_oldest_of_each() {
        let vacancy = Arc::new(Vacancy::new());
        let claims = |phases: &[Phase]| -> Vec<Claim> {
            let claims = phases
                .iter()
                .filter_map(|phase| phase.claim(Instant::now()));
            claims.collect()
        };
        let mut phases = Vec::new();
        for _ in 0..4 {
            let phase = Phase::new(Budget::new(0), Arc::clone(&vacancy));
            phase.runs_as(tokio::spawn(std::future::pending::<()>()).abort_handle());
            phases.push(phase);
            advance(SLOW / 4).await;
        }
        // The third and the fourth have served a request, and the third is idle for longer.
        for phase in &phases[2..] {
            assert!(phase.begin_request(Some(0)));
            phase.end_request();
            phase.rest(Instant::now());
            advance(SLOW / 4).await;
        }
        let young = Phase::new(Budget::new(0), vacancy);
        young.runs_as(tokio::spawn(std::future::pending::<()>()).abort_handle());
        phases.insert(0, young);
        let claims = claims(&phases);
        let mut sorted = claims.clone();
        sorted.sort();
        let order = [1, 2, 3, 4, 0].map(|place: usize| claims[place]);
        assert_eq!(sorted, order);
    }

    #[test]
    fn large_heads_share_their_memory_and_connections_with_one_give_way() {
        let heads = Budget::new(2 * LARGE_HEAD);
        let new = || Phase::new(heads.clone(), Arc::new(Vacancy::new()));
        let (first, second, third) = (new(), new(), new());
        assert!(first.enlarge() && first.enlarge());
        assert!(!first.crowds());
        assert!(second.enlarge() && !third.enlarge());
        assert!(first.crowds() && !third.crowds());
        drop(second);
        assert!(third.enlarge());
    }
}
