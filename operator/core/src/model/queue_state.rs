//! The state of a stack's queues as the broker reports it.

/// The depth of a queue, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that wait for a worker.
    pub ready: i64,
    /// Messages that a worker has not acknowledged yet.
    pub unacked: i64,
}

impl Depth {
    /// Returns the number of ready and unacknowledged messages.
    pub fn total(self) -> i64 {
        self.ready + self.unacked
    }
}

/// The depths of a stack's queues. A depth is unknown while its queue is missing or the broker has no statistics of
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Depth of the job queue.
    pub jobs: Option<Depth>,
    /// Number of dead letters.
    pub dead_letters: Option<i64>,
}

/// A report of a broker about a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Depth of the queue; `None` if the broker has no statistics of it.
    pub depth: Option<Depth>,
    /// Reason of an alarm, during which the broker accepts no messages.
    pub alarm: Option<String>,
}

/// The state of a queue that the status shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueueState {
    /// There is no result yet.
    #[default]
    Unknown,
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
            Self::Unknown | Self::Unreachable(_) => None,
        }
    }
}
