//! Clicks: redirects by code and day, people and programs apart.
//!
//! ```text
//! redirect --> Clicks::count --> Counter (in memory) --> Flusher --> click_batches and clicks (database)
//!              what counts       bounded                 every few seconds, and when the app ends
//! ```
//!
//! A redirect only adds to the counter: it never waits for the database. Nothing about the client is kept.

mod counter;
mod flusher;
mod metrics;
mod programs;
mod visit;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

pub use self::{
    counter::{Batch, Counter, Counts, Entry},
    flusher::FlushTask,
    metrics::ClickMetrics,
    visit::Visit,
};
use self::{
    flusher::Flusher,
    programs::{Programs, prepare},
};
use crate::{
    code::Code,
    store::clicks::{ClickStore, ClickWriter},
};

/// A UTC day, as the number of days since 1970-01-01.
pub type Day = i32;

/// The clicks of one stack.
pub struct Clicks {
    counter: Arc<Counter>,
    programs: Programs,
    metrics: ClickMetrics,
    /// The clicks in the database.
    pub store: ClickStore,
}

impl Clicks {
    /// Counts in this many bytes, and starts the task that writes the counts.
    pub fn start(
        bytes: usize,
        store: ClickStore,
        writer: ClickWriter,
        metrics: ClickMetrics,
    ) -> (Self, FlushTask) {
        prepare();
        let counter = Arc::new(Counter::new(bytes));
        let flusher = Flusher::new(Arc::clone(&counter), writer, metrics.clone());
        let clicks = Self {
            counter,
            programs: Programs::default(),
            metrics,
            store,
        };
        (clicks, FlushTask::start(flusher))
    }

    /// Counts a visit that was redirected to the destination of a link.
    pub fn count(&self, code: Code<'_>, visit: &Visit) {
        let counts = match self.programs.contain(visit.agent()) {
            true => Counts { people: 0, bots: 1 },
            false => Counts { people: 1, bots: 0 },
        };
        if !self.counter.add(code, today(), counts) {
            self.metrics.lost_full.inc();
        }
    }
}

/// Returns the day of now.
pub fn today() -> Day {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = now.map_or(0, |now| now.as_secs() / (24 * 60 * 60));
    Day::try_from(days).unwrap_or(Day::MAX)
}
