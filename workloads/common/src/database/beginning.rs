//! The time at which a read begins, which decides what it can miss.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// The time at which the statement of a read was sent, unknown until then; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Beginning(Arc<OnceLock<Instant>>);

impl Beginning {
    /// Returns the age of the read; `None` while it has not begun, and then it sees every change that was made until
    /// now.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.0.get().map(Instant::elapsed)
    }

    /// Sets the time to now. A read that has begun stays as old as it is.
    pub fn note(&self) {
        self.0.get_or_init(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_ages_from_its_first_beginning_on() {
        let read = Beginning::default();
        let shared = read.clone();
        assert_eq!(shared.age(), None);
        read.note();
        let pause = Duration::from_millis(1);
        let noted = Instant::now();
        while noted.elapsed() < pause {}
        read.note();
        assert!(shared.age() >= Some(pause), "{:?}", shared.age());
    }
}
