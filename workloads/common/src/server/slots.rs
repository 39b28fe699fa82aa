//! The open connections of a server. There is room for so many, and one that waits for its client makes room for a new
//! one: slow clients cannot keep others out.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{
    PER_CONNECTION, Settings,
    phase::{Claim, GONE, Phase, SLOW, Vacancy},
};
use crate::budget::Budget;

/// The phases of the open connections, by the order of their acceptance.
type Open = Arc<Mutex<BTreeMap<u64, Phase>>>;

/// The places for connections.
pub(super) struct Slots {
    most: usize,
    memory: Budget,
    heads: Budget,
    vacancy: Arc<Vacancy>,
    open: Open,
    next: u64,
}

/// The place of a connection until it is dropped.
pub(super) struct Slot {
    number: u64,
    phase: Phase,
    memory: Budget,
    vacancy: Arc<Vacancy>,
    open: Open,
}

impl Slots {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            most: settings.max_connections,
            memory: settings.memory.clone(),
            heads: settings.heads.clone(),
            vacancy: Arc::new(Vacancy::new()),
            open: Open::default(),
            next: 0,
        }
    }

    /// Returns a place for a new connection. Without room, another connection is closed for it; while all of them handle
    /// requests, it waits.
    pub(super) async fn enter(&mut self) -> Slot {
        if let Some(slot) = self.try_enter() {
            return slot;
        }
        self.memory.count_refusal();
        self.vacancy.want(true);
        let slot = loop {
            if let Some(slot) = self.try_enter() {
                break slot;
            }
            self.close_one();
            // A client becomes slow without any news.
            let _ = timeout(SLOW, self.vacancy.heard()).await;
        };
        self.vacancy.want(false);
        slot
    }

    fn try_enter(&mut self) -> Option<Slot> {
        let mut open = self.open.lock();
        if open.len() >= self.most || !self.memory.try_hold(PER_CONNECTION) {
            return None;
        }
        let phase = Phase::new(self.heads.clone(), Arc::clone(&self.vacancy));
        let number = self.next;
        self.next += 1;
        open.insert(number, phase.clone());
        Some(Slot {
            number,
            phase,
            memory: self.memory.clone(),
            vacancy: Arc::clone(&self.vacancy),
            open: Arc::clone(&self.open),
        })
    }

    /// Closes the first of the connections that may be closed, unless one is being closed already.
    fn close_one(&self) {
        while let Some((claim, phase)) = self.first_claim() {
            // Otherwise its client has sent something meanwhile.
            if phase.close(claim) {
                return;
            }
        }
    }

    fn first_claim(&self) -> Option<(Claim, Phase)> {
        let open = self.open.lock();
        if open.values().any(|phase| phase.get() == GONE) {
            return None;
        }
        let now = Instant::now();
        let claims = open
            .values()
            .filter_map(|phase| Some((phase.claim(now)?, phase)));
        let first = claims.min_by_key(|(claim, _)| *claim);
        first.map(|(claim, phase)| (claim, phase.clone()))
    }
}

impl Slot {
    /// Returns the phase of the connection.
    pub(super) fn phase(&self) -> Phase {
        self.phase.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.open.lock().remove(&self.number);
        self.memory.release(PER_CONNECTION);
        self.vacancy.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    /// Returns places for two connections, by their number or by their memory.
    fn two() -> [Slots; 2] {
        let settings = || Settings::internal(Duration::ZERO, Duration::ZERO);
        let by_number = Settings {
            max_connections: 2,
            ..settings()
        };
        let by_memory = Settings {
            memory: Budget::new(2 * PER_CONNECTION + 1),
            ..settings()
        };
        [by_number, by_memory].map(|settings| Slots::new(&settings))
    }

    /// Returns a connection that stays where it is until it is closed.
    fn connection(slot: Slot) -> (Phase, JoinHandle<()>) {
        let phase = slot.phase();
        let task = tokio::spawn(async move {
            let _slot = slot;
            pending().await
        });
        phase.runs_as(task.abort_handle());
        (phase, task)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_waits_for_its_client_makes_room() {
        for mut slots in two() {
            let (_, first) = connection(slots.enter().await);
            let (_, second) = connection(slots.enter().await);
            assert_eq!(slots.memory.refused(), 0);
            let _third = slots.enter().await;
            assert!(first.await.unwrap_err().is_cancelled());
            assert!(!second.is_finished());
            assert_eq!(slots.memory.refused(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_are_busy_a_new_connection_waits_for_one_that_has_answered_or_ended() {
        for mut slots in two() {
            let (busy, first) = connection(slots.enter().await);
            let second = slots.enter().await;
            assert!(busy.begin_request(Some(0)) && second.phase().begin_request(Some(0)));
            let early = timeout(Duration::from_secs(60), slots.enter()).await;
            assert!(early.is_err(), "a request was given up");
            let end = async {
                yield_now().await;
                drop(second);
            };
            let (third, ()) = tokio::join!(slots.enter(), end);
            assert!(third.phase().begin_request(Some(0)));
            let answer = async {
                yield_now().await;
                busy.end_request();
                busy.rest(Instant::now());
            };
            let (_fourth, ()) = tokio::join!(slots.enter(), answer);
            assert!(first.await.unwrap_err().is_cancelled());
        }
    }

    #[tokio::test]
    async fn everything_is_free_again_in_the_end() {
        for mut slots in two() {
            let all = [slots.enter().await, slots.enter().await];
            assert_eq!(slots.memory.used(), 2 * PER_CONNECTION);
            drop(all);
            assert_eq!(slots.memory.used(), 0);
            assert!(slots.open.lock().is_empty());
        }
    }
}
