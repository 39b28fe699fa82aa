//! Identifiers that are chosen before their span starts.

use std::cell::Cell;

use opentelemetry::{SpanId, TraceId};
use opentelemetry_sdk::trace::IdGenerator;

use crate::trace::TraceContext;

thread_local! {
    /// The identifiers of the span that this thread starts.
    static GIVEN: Cell<(TraceId, SpanId)> = const { Cell::new((TraceId::INVALID, SpanId::INVALID)) };
}

/// Chooses the identifiers of the next span of this thread.
pub(super) fn set(trace: TraceContext) {
    GIVEN.set((trace.trace_id, trace.span_id));
}

/// Gives a span the identifiers that were chosen for it.
#[derive(Debug)]
pub(crate) struct Given;

impl IdGenerator for Given {
    fn new_trace_id(&self) -> TraceId {
        GIVEN.get().0
    }

    fn new_span_id(&self) -> SpanId {
        GIVEN.get().1
    }
}
