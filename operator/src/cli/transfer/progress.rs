//! The progress of a long command on standard error.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// Counts links, and reports the count from time to time.
pub(super) struct Progress {
    verb: &'static str,
    pub(super) links: usize,
    start: Instant,
    last: Instant,
}

impl Progress {
    pub(super) fn new(verb: &'static str) -> Self {
        let start = Instant::now();
        Self {
            verb,
            links: 0,
            start,
            last: start,
        }
    }

    pub(super) fn add(&mut self, links: usize) {
        self.links += links;
        if self.last.elapsed() > INTERVAL {
            self.last = Instant::now();
            note(&format!(
                "{} links {} after {} s",
                self.links,
                self.verb,
                self.start.elapsed().as_secs()
            ));
        }
    }
}

/// Writes a line to standard error. A failure is ignored, because the command can go on.
pub(super) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
