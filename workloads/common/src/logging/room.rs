//! The room for lines that wait for a slow reader of standard output.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::budget::Budget;

/// The maximum number of lines that wait before further lines are dropped.
const LINES: usize = 16 * 1024;

/// The room of one log; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    lines: Budget,
    bytes: Budget,
    dropped: Arc<AtomicU64>,
}

impl Room {
    /// Returns a room for lines that take this memory.
    pub(super) fn new(bytes: Budget) -> Self {
        Self {
            lines: Budget::new(LINES),
            bytes,
            dropped: Arc::default(),
        }
    }

    /// Takes room for a line until it is [written](Self::leave). Returns false, and counts the line, if it is dropped.
    pub(super) fn enter(&self, bytes: usize) -> bool {
        let enters = self.lines.hold(1) && {
            let fits = self.bytes.hold(bytes);
            if !fits {
                self.lines.release(1);
            }
            fits
        };
        if !enters {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        enters
    }

    /// Frees the room of lines of this size together.
    pub(super) fn leave(&self, lines: usize, bytes: usize) {
        self.lines.release(lines);
        self.bytes.release(bytes);
    }

    /// Returns true if no line waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        (self.lines.used(), self.bytes.used()) == (0, 0)
    }

    /// Returns the number of lines that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1024 * 1024;

    fn room() -> Room {
        Room::new(Budget::new(BYTES))
    }

    /// Returns the number of lines of this size that enter.
    fn entering(room: &Room, bytes: usize) -> usize {
        std::iter::from_fn(|| room.enter(bytes).then_some(())).count()
    }

    #[test]
    fn short_lines_are_bounded_by_number_and_long_ones_by_bytes() {
        assert_eq!(entering(&room(), 1), LINES);
        let room = room();
        let long = 4 * 1024;
        assert_eq!(entering(&room, long), BYTES / long);
        assert_eq!(room.dropped(), 1);
        room.leave(1, long);
        assert_eq!(entering(&room, long), 1);
        assert_eq!(room.dropped(), 2);
    }
}
