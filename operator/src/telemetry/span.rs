//! Spans of traced work, exported when they end.
//!
//! The current span is visible to everything that is awaited inside [`in_span`], so a step of a reconcile and a request
//! become its children without passing a parameter. Work that is not traced creates no span.

use std::{
    borrow::Cow,
    num::NonZeroU64,
    sync::Arc,
    time::{Instant, SystemTime},
};

pub use opentelemetry::trace::SpanKind;
use opentelemetry::{
    InstrumentationScope, Key, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{SpanContext, Status, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::export::Queue;

/// Value of the attribute `error.type` for a failure of which only the text is known.
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/>
pub const OTHER: &str = "_OTHER";

/// Number of attributes of a typical span.
const ATTRIBUTES: usize = 6;
/// Maximum length of the description of a failure in bytes.
const MAX_DESCRIPTION: usize = 256;
/// Attribute of work that was given up before its end.
const CANCELLED: &str = "cancelled";

tokio::task_local! {
    /// The current span of this task.
    static CURRENT: Current;
}

#[derive(Clone)]
struct Current {
    sender: Arc<Sender>,
    position: Position,
}

/// The place of a span: its trace and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Identifier of the trace.
    pub trace: TraceId,
    /// Identifier of the span.
    pub span: SpanId,
}

/// The factory of the traces of a process. It starts none without an exporter. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sender>>);

#[derive(Debug)]
struct Sender {
    spans: Queue,
    scope: InstrumentationScope,
    /// Share of the traces that are recorded.
    ratio: f64,
}

impl Tracer {
    /// Returns a tracer that sends this share of the traces through a queue.
    pub(super) fn new(spans: Queue, scope: InstrumentationScope, ratio: f64) -> Self {
        Self(Some(Arc::new(Sender {
            spans,
            scope,
            ratio,
        })))
    }

    /// Returns true if there is an exporter.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a trace with its first span, or returns `None` without an exporter and for a trace that is left out. The
    /// parts of a trace follow this decision.
    pub fn root(&self, name: &'static str) -> Option<Span> {
        let sender = self.0.as_ref()?;
        if rand::random::<f64>() >= sender.ratio {
            return None;
        }
        let high = rand::random::<NonZeroU64>().get();
        let trace = u128::from(high) << 64 | u128::from(rand::random::<u64>());
        let place = (trace.into(), SpanId::INVALID);
        Some(Span::begin(sender, place, SpanKind::Internal, name.into()))
    }
}

/// A span in progress. If it is dropped before it is [ended](Span::end), the work was given up: the span says so, and its
/// status stays unset.
#[derive(Debug)]
pub struct Span {
    sender: Arc<Sender>,
    started: Instant,
    /// The span as it will be exported; `None` once it is.
    data: Option<SpanData>,
    position: Position,
}

impl Span {
    fn begin(
        sender: &Arc<Sender>,
        (trace, parent): (TraceId, SpanId),
        kind: SpanKind,
        name: Cow<'static, str>,
    ) -> Self {
        let span: SpanId = rand::random::<NonZeroU64>().get().into();
        let (flags, start_time) = (TraceFlags::SAMPLED, SystemTime::now());
        let data = SpanData {
            span_context: SpanContext::new(trace, span, flags, false, TraceState::NONE),
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: kind,
            name,
            start_time,
            end_time: start_time,
            attributes: Vec::with_capacity(ATTRIBUTES),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: sender.scope.clone(),
        };
        Self {
            sender: sender.clone(),
            started: Instant::now(),
            data: Some(data),
            position: Position { trace, span },
        }
    }

    /// Adds an attribute. It must not contain secrets.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(data) = &mut self.data {
            let attribute = KeyValue::new(Key::from_static_str(name), value);
            data.attributes.push(attribute);
        }
    }

    /// Sets the status to error, with an error type out of few fixed words and a description.
    pub fn fail(&mut self, kind: impl Into<Value>, description: &str) {
        self.set("error.type", kind);
        if let Some(data) = &mut self.data {
            let end = description.floor_char_boundary(MAX_DESCRIPTION);
            data.status = Status::error(description[..end].to_owned());
        }
    }

    /// Ends the span and exports it.
    pub fn end(mut self) {
        self.send();
    }

    fn send(&mut self) {
        if let Some(mut data) = self.data.take() {
            data.end_time = data.start_time + self.started.elapsed();
            self.sender.spans.offer(data);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.set(CANCELLED, true);
        self.send();
    }
}

/// Runs the work with this span as the current span.
pub fn in_span<F: Future>(span: &Span, work: F) -> impl Future<Output = F::Output> + use<F> {
    let current = Current {
        sender: span.sender.clone(),
        position: span.position,
    };
    CURRENT.scope(current, work)
}

/// Returns the place of the current span.
pub fn current() -> Option<Position> {
    CURRENT.try_with(|current| current.position).ok()
}

/// Starts a child of the current span; `None` without one, and then `name` is not called.
pub fn child<N: Into<Cow<'static, str>>>(kind: SpanKind, name: impl FnOnce() -> N) -> Option<Span> {
    let begin = |current: &Current| {
        let place = (current.position.trace, current.position.span);
        Span::begin(&current.sender, place, kind, name().into())
    };
    CURRENT.try_with(begin).ok()
}

/// Runs a part of the work in a child of the current span. `failure` returns the error type and the description of a
/// result that is a failure.
pub async fn part<T>(
    name: &'static str,
    work: impl Future<Output = T>,
    failure: impl FnOnce(&T) -> Option<(&'static str, String)>,
) -> T {
    let Some(mut span) = child(SpanKind::Internal, || name) else {
        return work.await;
    };
    let result = in_span(&span, work).await;
    if let Some((kind, description)) = failure(&result) {
        span.fail(kind, &description);
    }
    span.end();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::collector::FakeCollector;

    /// Returns the spans of the work, in the order in which they ended.
    async fn spans_of<F: Future<Output = ()>>(
        ratio: f64,
        work: impl FnOnce(Tracer) -> F,
    ) -> Vec<SpanData> {
        let collector = FakeCollector::default();
        let telemetry = collector.telemetry(ratio);
        work(telemetry.tracer()).await;
        telemetry.shutdown().await;
        collector.spans()
    }

    fn names(spans: &[SpanData]) -> Vec<&str> {
        spans.iter().map(|span| span.name.as_ref()).collect()
    }

    #[tokio::test]
    async fn what_is_awaited_within_a_span_is_a_part_of_it() {
        let spans = spans_of(1.0, async |tracer| {
            assert!(child(SpanKind::Client, || "before").is_none());
            assert_eq!(current(), None);
            let whole = tracer.root("whole").unwrap();
            let work = in_span(&whole, async {
                let work = async { child(SpanKind::Client, || "request").unwrap().end() };
                part("step", work, |_| None).await;
                assert_eq!(current().unwrap().trace, whole.position.trace);
            });
            work.await;
            whole.end();
        });
        let spans = spans.await;
        assert_eq!(names(&spans), ["request", "step", "whole"]);
        for (span, parent) in [(0, 1), (1, 2)] {
            let (span, parent) = (&spans[span], &spans[parent].span_context);
            assert_eq!(span.span_context.trace_id(), parent.trace_id());
            assert_eq!(span.parent_span_id, parent.span_id());
        }
        assert_eq!(spans[2].parent_span_id, SpanId::INVALID);
        assert!(spans[2].end_time >= spans[2].start_time);
    }

    #[tokio::test]
    async fn a_trace_that_is_left_out_has_no_span_at_all() {
        let spans = spans_of(0.0, async |tracer| {
            assert!(tracer.is_on() && tracer.root("whole").is_none());
            part("step", async {}, |_| None).await;
        });
        assert_eq!(names(&spans.await), [""; 0]);
        assert!(Tracer::default().root("whole").is_none());
    }

    #[tokio::test]
    async fn a_failure_is_the_status_of_its_span() {
        let reason = "ä".repeat(MAX_DESCRIPTION);
        let spans = spans_of(1.0, async |tracer| {
            let whole = tracer.root("whole").unwrap();
            let work = async { Err::<(), _>(reason.clone()) };
            let failure = |result: &Result<(), String>| Some(("Timeout", result.clone().err()?));
            let result = in_span(&whole, part("step", work, failure)).await;
            assert!(result.is_err());
        });
        let spans = spans.await;
        let error = Status::error("ä".repeat(MAX_DESCRIPTION / 2));
        assert_eq!(spans[0].status, error);
        let kind = KeyValue::new("error.type", "Timeout");
        assert_eq!(spans[0].attributes, [kind]);
        // It was dropped and not ended.
        assert_eq!(spans[1].status, Status::Unset);
        assert_eq!(spans[1].attributes, [KeyValue::new(CANCELLED, true)]);
    }
}
