//! The open connections of a server. There is room for so many, and one that waits for its client makes room for a new
//! one: slow clients cannot keep others out.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    PER_CONNECTION, Settings,
    phase::{Claim, GONE, Phase, Vacancy},
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
            self.vacancy.heard().await;
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
