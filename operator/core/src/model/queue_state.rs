//! The state of a stack's queues as the broker reports it.

use std::collections::BTreeSet;

use super::topology::QueueLimits;

/// Share of the bounds, in percent, from which on the dead-letter queue counts as nearly full.
const NEARLY_FULL: u64 = 80;

/// The depth of a queue, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that wait for a worker.
    pub ready: i64,
    /// Messages that a worker has not acknowledged yet.
    pub unacked: i64,
}

impl Depth {
    /// Returns the number of ready and unacknowledged messages. A broker may report any numbers.
    pub fn total(self) -> i64 {
        self.ready.saturating_add(self.unacked)
    }
}

/// The depths of a stack's queues. A depth is unknown while its queue is missing or the broker has no statistics of
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Depth of the job queue.
    pub jobs: Option<Depth>,
    pub dead_letters: Option<i64>,
    /// Size of all dead letters together, in bytes of their bodies.
    pub dead_letter_bytes: Option<i64>,
    /// Number of dead letters that the broker has dropped since its start, because their queue was full; `None` if the
    /// broker does not export it.
    pub dropped: Option<u64>,
}

impl Depths {
    /// Returns the room in the dead-letter queue; `None` if the depth is unknown.
    pub fn room(&self, limits: QueueLimits) -> Option<DeadLetterRoom> {
        let used = |amount: i64, limit: u64| {
            u64::try_from(amount)
                .unwrap_or_default()
                .saturating_mul(100)
                / limit.max(1)
        };
        let letters = u64::try_from(limits.dead_letters).unwrap_or_default();
        let by_number = used(self.dead_letters?, letters);
        let by_size = self
            .dead_letter_bytes
            .map_or(0, |bytes| used(bytes, limits.dead_letter_bytes));
        Some(match by_number.max(by_size) < NEARLY_FULL {
            true => DeadLetterRoom::Enough,
            false if self.dropped.unwrap_or_default() == 0 => DeadLetterRoom::Little,
            false => DeadLetterRoom::Exceeded,
        })
    }
}

/// The room for dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterRoom {
    Enough,
    /// The queue is nearly full.
    Little,
    /// The queue is nearly full, and the broker has dropped dead letters.
    Exceeded,
}

/// A report of a broker about a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Depth of the queue; `None` if the broker has no statistics of it.
    pub depth: Option<Depth>,
    /// Reason of an alarm, during which the broker accepts no messages.
    pub alarm: Option<String>,
    /// Room for dead letters; `None` if the broker has no statistics of their queue.
    pub room: Option<DeadLetterRoom>,
    /// Clients that process a job, if the broker was asked for them.
    pub busy: Option<BTreeSet<String>>,
    /// Stable feature flags that are off; none if the broker does not show them.
    pub disabled_flags: Vec<String>,
}

/// The state of a queue that the status shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueueState {
    /// There is no result yet.
    #[default]
    Unknown,
    /// As unreachable, and it has not answered since the operator started: nothing is known of its limits.
    NeverReached(String),
    /// The broker is unreachable, with a reason that stays the same until it answers again.
    Unreachable(String),
    /// The broker answers.
    Report(Report),
}

impl QueueState {
    /// Returns the depth of the queue, if it is known.
    pub fn depth(&self) -> Option<Depth> {
        match self {
            Self::Report(report) => report.depth,
            Self::Unknown | Self::NeverReached(_) | Self::Unreachable(_) => None,
        }
    }

    /// Returns the room for dead letters, if it is known.
    pub fn room(&self) -> Option<DeadLetterRoom> {
        match self {
            Self::Report(report) => report.room,
            Self::Unknown | Self::NeverReached(_) | Self::Unreachable(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_depths_have_a_total() {
        let most = i64::MAX;
        for (ready, unacked, total) in [(3, 1, 4), (most, 0, most), (most, most, most)] {
            assert_eq!(Depth { ready, unacked }.total(), total);
        }
    }

    #[test]
    fn the_room_for_dead_letters_ends_by_number_and_by_size() {
        let limits = QueueLimits {
            deliveries: 5,
            dead_letters: 10,
            dead_letter_bytes: 1000,
        };
        let table = [
            (None, None, None, None),
            (None, Some(2000), Some(1), None),
            (Some(0), None, None, Some(DeadLetterRoom::Enough)),
            (Some(7), Some(799), Some(0), Some(DeadLetterRoom::Enough)),
            (Some(8), Some(0), Some(0), Some(DeadLetterRoom::Little)),
            (Some(1), Some(800), None, Some(DeadLetterRoom::Little)),
            (Some(10), Some(0), Some(1), Some(DeadLetterRoom::Exceeded)),
            // Drops of the past are over once there is room again.
            (Some(7), Some(0), Some(1), Some(DeadLetterRoom::Enough)),
        ];
        for (dead_letters, dead_letter_bytes, dropped, expected) in table {
            let depths = Depths {
                jobs: None,
                dead_letters,
                dead_letter_bytes,
                dropped,
            };
            assert_eq!(depths.room(limits), expected, "{depths:?}");
        }
    }
}
