//! Spans with identifiers that are known in advance, exported when they end.
//!
//! The current span is visible to everything that is awaited inside [`in_span`], so a call to a server becomes its
//! child without passing a parent.

use std::{
    borrow::Cow,
    future::Future,
    sync::Arc,
    time::{Instant, SystemTime},
};

use opentelemetry::{
    InstrumentationScope, Key, KeyValue, SpanId, TraceFlags,
    trace::{Link, SpanContext, Status, TraceState},
};
pub use opentelemetry::{Value, trace::SpanKind};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::queue::Queue;
use crate::trace::{Caller, TraceContext};

/// The number of attributes of a typical span.
const ATTRIBUTES: usize = 8;
/// The maximum length of a status description in bytes.
const MAX_DESCRIPTION: usize = 256;
/// The attribute of work that was given up before its end.
const CANCELLED: &str = "cancelled";

tokio::task_local! {
    /// The current span of this task.
    static CURRENT: Current;
}

#[derive(Clone)]
struct Current {
    tracer: Tracer,
    trace: TraceContext,
}

/// The factory of the spans of a process; it creates none without an exporter. Cheap to clone. Every span is
/// exported, whatever the sampling decision of the caller is.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sender>>);

#[derive(Debug)]
struct Sender {
    spans: Queue<SpanData>,
    scope: InstrumentationScope,
}

impl Tracer {
    /// Returns a tracer that sends through this queue.
    pub(super) fn new(spans: Queue<SpanData>, scope: InstrumentationScope) -> Self {
        Self(Some(Arc::new(Sender { spans, scope })))
    }

    /// Returns true if spans are exported.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts the span for this position in a trace. Its parent, if it has one, belongs to another process.
    #[must_use]
    pub fn start(
        &self,
        trace: TraceContext,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
    ) -> Span {
        let mut span = self.begin(trace, kind, name);
        if let Some(sent) = &mut span.sent {
            sent.data.parent_span_is_remote = trace.parent.is_some();
        }
        span
    }

    /// Starts a child span of `whole`.
    #[must_use]
    pub fn start_part(
        &self,
        whole: TraceContext,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
    ) -> Span {
        self.begin(whole.child(), kind, name)
    }

    fn begin(
        &self,
        trace: TraceContext,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
    ) -> Span {
        let sent = self.0.as_ref().map(|sender| {
            let start_time = SystemTime::now();
            Sent {
                started: Instant::now(),
                data: SpanData {
                    span_context: context_of(trace),
                    parent_span_id: trace.parent.map_or(SpanId::INVALID, SpanId::from),
                    parent_span_is_remote: false,
                    span_kind: kind,
                    name: name.into(),
                    start_time,
                    end_time: start_time,
                    attributes: Vec::with_capacity(ATTRIBUTES),
                    dropped_attributes_count: 0,
                    events: SpanEvents::default(),
                    links: SpanLinks::default(),
                    status: Status::Unset,
                    instrumentation_scope: sender.scope.clone(),
                },
            }
        });
        Span {
            tracer: self.clone(),
            trace,
            sent,
        }
    }

    fn send(&self, mut sent: Sent) {
        sent.data.end_time = sent.data.start_time + sent.started.elapsed();
        if let Some(sender) = &self.0 {
            sender.spans.offer(sent.data);
        }
    }
}

fn context_of(trace: TraceContext) -> SpanContext {
    let (trace_id, span_id) = (trace.trace_id.into(), trace.span_id.into());
    SpanContext::new(
        trace_id,
        span_id,
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    )
}

/// A span in progress. If it is dropped before it is [ended](Span::end), the work was cancelled: the span says so, and
/// its status stays unset, because work that nothing waits for any more has not failed.
#[derive(Debug)]
pub struct Span {
    tracer: Tracer,
    trace: TraceContext,
    sent: Option<Sent>,
}

#[derive(Debug)]
struct Sent {
    data: SpanData,
    started: Instant,
}

impl Span {
    /// Returns its position in the trace.
    #[must_use]
    pub fn trace(&self) -> TraceContext {
        self.trace
    }

    /// Returns the description of the span, to add attributes; `None` without an exporter, so that describing it
    /// costs nothing.
    pub fn describe(&mut self) -> Option<Description<'_>> {
        self.sent.as_mut().map(|sent| Description(&mut sent.data))
    }

    /// Ends the span and exports it.
    pub fn end(mut self) {
        if let Some(sent) = self.sent.take() {
            self.tracer.send(sent);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut sent) = self.sent.take() {
            Description(&mut sent.data).set(CANCELLED, true);
            self.tracer.send(sent);
        }
    }
}

/// The attributes and the status of a span, by OpenTelemetry's semantic conventions.
/// <https://opentelemetry.io/docs/specs/semconv/>
pub struct Description<'a>(&'a mut SpanData);

impl Description<'_> {
    /// Adds an attribute. It must not contain secrets, nor more of a client's input than the log may contain.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) -> &mut Self {
        let attribute = KeyValue::new(Key::from_static_str(name), value);
        self.0.attributes.push(attribute);
        self
    }

    /// Adds several attributes.
    pub fn set_all(&mut self, attributes: &[KeyValue]) -> &mut Self {
        self.0.attributes.extend_from_slice(attributes);
        self
    }

    /// Sets the status to error, with an error type out of few fixed words and a description.
    pub fn fail(&mut self, kind: &'static str, reason: &str) -> &mut Self {
        let end = reason.floor_char_boundary(MAX_DESCRIPTION);
        self.0.status = Status::error(reason[..end].to_owned());
        self.set("error.type", kind)
    }

    /// Adds a link to the parent, which belongs to another process.
    pub fn link_parent(&mut self) -> &mut Self {
        let (trace, parent) = (self.0.span_context.trace_id(), self.0.parent_span_id);
        if parent != SpanId::INVALID {
            self.link_to(trace, parent);
        }
        self
    }

    /// Adds a link to the span of a caller whose trace is not continued.
    pub fn link_caller(&mut self, caller: Caller) -> &mut Self {
        self.link_to(caller.trace_id.into(), caller.span_id.into())
    }

    fn link_to(&mut self, trace: opentelemetry::TraceId, span: SpanId) -> &mut Self {
        let other = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE);
        self.0.links.links.push(Link::with_context(other));
        self
    }
}

/// Runs the work with this span as the current span.
pub fn in_span<F: Future>(span: &Span, work: F) -> impl Future<Output = F::Output> + use<F> {
    let current = Current {
        tracer: span.tracer.clone(),
        trace: span.trace,
    };
    CURRENT.scope(current, work)
}

/// Keeps the current span for work that another task will run.
pub fn with_current_span<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    let current = CURRENT.try_with(Clone::clone).ok();
    async move {
        match current {
            Some(current) => CURRENT.scope(current, work).await,
            None => work.await,
        }
    }
}

/// Returns the trace context of the current span, with or without an exporter.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|current| current.trace).ok()
}

/// Starts a child of the current span; `None` without a span or an exporter, and then `name` is not called.
#[must_use]
pub fn part<N: Into<Cow<'static, str>>>(kind: SpanKind, name: impl FnOnce() -> N) -> Option<Span> {
    let begin = |current: &Current| {
        let tracer = &current.tracer;
        let span = || tracer.start_part(current.trace, kind, name());
        tracer.is_on().then(span)
    };
    CURRENT.try_with(begin).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use prometheus_client::metrics::counter::Counter;
    use tokio::sync::watch;

    use super::{super::queue::Export, *};
    use crate::budget::Budget;

    /// Keeps spans in memory.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl Export for Kept {
        type Item = SpanData;

        async fn export(&self, batch: Vec<SpanData>) -> Result<(), String> {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    /// Returns the spans of the work, in the order in which they ended.
    async fn spans_of<F: Future<Output = ()>>(work: impl FnOnce(Tracer) -> F) -> Vec<SpanData> {
        let (kept, end) = (Kept::default(), watch::Sender::new(true));
        let (budget, dropped) = (Budget::new(1024 * 1024), Counter::default());
        let (queue, drain) = Queue::start(kept.clone(), budget, dropped, end.subscribe());
        let scope = InstrumentationScope::builder("test").build();
        work(Tracer::new(queue, scope)).await;
        drain.await;
        std::mem::take(&mut *kept.0.lock().unwrap())
    }

    fn attribute(span: &SpanData, name: &str) -> Option<String> {
        let found = |attribute: &&KeyValue| attribute.key.as_str() == name;
        let found = span.attributes.iter().find(found)?;
        Some(found.value.to_string())
    }

    #[tokio::test]
    async fn a_span_has_the_identifiers_that_were_known_before() {
        let header = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let trace = TraceContext::continuing(Some(header));
        let spans = spans_of(async |tracer| tracer.start(trace, SpanKind::Server, "GET /").end());
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(span.span_context.trace_id(), trace.trace_id.into());
        assert_eq!(span.span_context.span_id(), trace.span_id.into());
        assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
        assert!(span.parent_span_is_remote);
        assert!(
            span.span_context.is_sampled(),
            "the sampled flag of the caller is ignored"
        );
        assert_eq!(
            (span.name.as_ref(), &span.status),
            ("GET /", &Status::Unset)
        );
        assert!(span.end_time >= span.start_time);
    }

    #[tokio::test]
    async fn what_is_awaited_within_a_span_is_a_part_of_it() {
        let trace = TraceContext::continuing(None);
        let spans = spans_of(async |tracer| {
            assert!(part(SpanKind::Client, || "before").is_none());
            let whole = tracer.start(trace, SpanKind::Server, "whole");
            let work = in_span(&whole, async {
                part(SpanKind::Client, || "first").unwrap().end();
                let carried = with_current_span(async {
                    part(SpanKind::Client, || "carried").unwrap().end()
                });
                tokio::spawn(carried).await.unwrap();
                let lost = tokio::spawn(async { part(SpanKind::Client, || "lost").is_none() });
                assert!(lost.await.unwrap());
            });
            work.await;
            whole.end();
        });
        let spans = spans.await;
        let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
        assert_eq!(names, ["first", "carried", "whole"]);
        for part in &spans[..2] {
            assert_eq!(part.span_context.trace_id(), trace.trace_id.into());
            assert_eq!(part.parent_span_id, trace.span_id.into());
            assert!(!part.parent_span_is_remote);
        }
        assert_eq!(spans[2].parent_span_id, SpanId::INVALID);
    }

    #[tokio::test]
    async fn work_that_is_given_up_says_so() {
        let spans = spans_of(async |tracer| {
            let trace = TraceContext::continuing(None);
            drop(tracer.start(trace, SpanKind::Client, "MGET"));
        });
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(attribute(span, CANCELLED).unwrap(), "true");
        assert_eq!(attribute(span, "error.type"), None);
        assert_eq!(span.status, Status::Unset, "nothing has failed");
    }

    #[tokio::test]
    async fn a_failure_is_described_within_bounds() {
        let spans = spans_of(async |tracer| {
            let mut span = tracer.start(TraceContext::continuing(None), SpanKind::Client, "x");
            let reason = "ä".repeat(MAX_DESCRIPTION);
            span.describe().unwrap().fail("timeout", &reason);
            span.end();
        });
        let [span] = &spans.await[..] else { panic!() };
        let expected = "ä".repeat(MAX_DESCRIPTION / 2);
        assert_eq!(span.status, Status::error(expected));
        assert_eq!(attribute(span, "error.type").unwrap(), "timeout");
    }

    #[tokio::test]
    async fn only_a_parent_elsewhere_can_be_linked() {
        let spans = spans_of(async |tracer| {
            let publication = TraceContext::continuing(None);
            let header = publication.traceparent();
            for trace in [
                publication,
                TraceContext::continuing(Some(header.as_bytes())),
            ] {
                let mut span = tracer.start(trace, SpanKind::Consumer, "process jobs");
                span.describe().unwrap().link_parent();
                span.end();
            }
        });
        let [publication, processing] = &spans.await[..] else {
            panic!()
        };
        assert!(publication.links.is_empty());
        let link = &processing.links[0].span_context;
        assert_eq!(link.span_id(), publication.span_context.span_id());
        assert_eq!(link.trace_id(), publication.span_context.trace_id());
        assert!(link.is_remote());
    }

    #[tokio::test]
    async fn a_caller_can_be_linked_without_being_the_parent() {
        let headers = http::HeaderMap::from_iter([(
            crate::trace::TRACEPARENT,
            http::HeaderValue::from_static(
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
        )]);
        let caller = Caller::from_headers(&headers).unwrap();
        let spans = spans_of(async |tracer| {
            let mut span = tracer.start(TraceContext::root(), SpanKind::Server, "GET /");
            span.describe().unwrap().link_caller(caller);
            span.end();
        });
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(span.parent_span_id, SpanId::INVALID);
        let link = &span.links[0].span_context;
        assert_eq!(link.trace_id(), caller.trace_id.into());
        assert_eq!(link.span_id().to_string(), "b7ad6b7169203331");
        assert_ne!(link.trace_id(), span.span_context.trace_id());
    }

    #[test]
    fn without_an_exporter_there_is_a_position_and_nothing_else() {
        let trace = TraceContext::continuing(None);
        let mut span = Tracer::default().start(trace, SpanKind::Server, "GET /");
        assert_eq!(span.trace(), trace);
        assert!(span.describe().is_none());
        let part = span.tracer.start_part(trace, SpanKind::Producer, "x");
        assert_eq!(part.trace().parent, Some(trace.span_id));
    }
}
