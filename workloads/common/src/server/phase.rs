//! The phase of a connection: its stream knows the bytes and its service knows the requests, and both have to know which
//! time limit counts.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

/// The length up to which a body that no handler reads is skipped, in bytes. It has usually arrived with its head.
const SMALL_BODY: u64 = 8 * 1024;

/// The phases of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// A request head is expected, or some of it has arrived.
    Head,
    /// A request is being handled; its body and its handler have time limits of their own.
    Busy,
    /// The response is ready, and then the connection waits for another request.
    Answered,
}

/// The phase that a stream and its service share; cheap to clone.
#[derive(Clone)]
pub(super) struct SharedPhase(Arc<PhaseState>);

struct PhaseState {
    phase: AtomicU8,
    /// True from the head of a request with a large body until that is read to its end.
    unread: AtomicBool,
}

impl SharedPhase {
    /// Returns the phase of a new connection.
    pub(super) fn new() -> Self {
        Self(Arc::new(PhaseState {
            phase: AtomicU8::new(Phase::Head as u8),
            unread: AtomicBool::new(false),
        }))
    }

    pub(super) fn is(&self, phase: Phase) -> bool {
        self.0.phase.load(Ordering::Acquire) == phase as u8
    }

    pub(super) fn set(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Ordering::Release);
    }

    /// Records that the head of a request is complete, whose body has at most this length in bytes if it says so.
    pub(super) fn begin_request(&self, body: Option<u64>) {
        let is_large = body.is_none_or(|length| length > SMALL_BODY);
        self.0.unread.store(is_large, Ordering::Relaxed);
        self.set(Phase::Busy);
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
}
