//! Spans with identifiers that are known in advance, exported when they end.
//!
//! The current span is visible to everything that is awaited inside [`in_span`], so a call to a server becomes its
//! child without passing a parent.

use std::{
    borrow::Cow,
    future::Future,
    time::{Instant, SystemTime},
};

pub use super::wire::Value;
use super::{
    otlp::{self, Attributes},
    queue::Queue,
    wire::Message,
};
use crate::trace::{Caller, SpanId, TraceContext, TraceId};

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

/// The role of a span in its trace, by the number that OTLP gives it.
/// <https://opentelemetry.io/docs/specs/otel/trace/api/#spankind>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within this process.
    Internal = 1,
    /// The handling of a request.
    Server = 2,
    /// A request to another server.
    Client = 3,
    /// The creation of a job.
    Producer = 4,
    /// The processing of a job.
    Consumer = 5,
}

/// The factory of the spans of a process; it creates none without an exporter. Cheap to clone. Every span is
/// exported, whatever the sampling decision of the caller is.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Sender>);

#[derive(Clone, Debug)]
struct Sender {
    spans: Queue,
    /// The name of the instrumentation scope.
    scope: &'static str,
}

impl Tracer {
    /// Returns a tracer that sends through this queue, on behalf of this program.
    pub(super) fn new(spans: Queue, scope: &'static str) -> Self {
        Self(Some(Sender { spans, scope }))
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
        self.begin(trace, kind, name, trace.parent.is_some())
    }

    /// Starts a child span of `whole`.
    #[must_use]
    pub fn start_part(
        &self,
        whole: TraceContext,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
    ) -> Span {
        self.begin(whole.child(), kind, name, false)
    }

    fn begin(
        &self,
        trace: TraceContext,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
        parent_is_remote: bool,
    ) -> Span {
        let sent = self.0.as_ref().map(|_| {
            let (start_time, started) = (SystemTime::now(), Instant::now());
            let message = otlp::begin_span(
                trace,
                kind as u64,
                &name.into(),
                start_time,
                parent_is_remote,
            );
            Sent {
                message,
                start_time,
                started,
            }
        });
        Span {
            tracer: self.clone(),
            trace,
            sent,
        }
    }

    fn send(&self, mut sent: Sent) {
        otlp::end_span(&mut sent.message, sent.start_time + sent.started.elapsed());
        if let Some(sender) = &self.0 {
            sender.spans.offer(sender.scope, &sent.message);
        }
    }
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
    /// The span, without its end.
    message: Message,
    start_time: SystemTime,
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
        let trace = self.trace;
        self.sent.as_mut().map(|sent| Description {
            message: &mut sent.message,
            trace,
        })
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
        if let Some(mut description) = self.describe() {
            description.set(CANCELLED, true);
        }
        if let Some(sent) = self.sent.take() {
            self.tracer.send(sent);
        }
    }
}

/// The attributes and the status of a span, by OpenTelemetry's semantic conventions.
/// <https://opentelemetry.io/docs/specs/semconv/>
pub struct Description<'a> {
    message: &'a mut Message,
    trace: TraceContext,
}

impl Description<'_> {
    /// Adds an attribute. It must not contain secrets, nor more of a client's input than the log may contain.
    pub fn set<'v>(&mut self, name: &'static str, value: impl Into<Value<'v>>) -> &mut Self {
        otlp::add_attribute(self.message, name, value.into());
        self
    }

    /// Adds several attributes.
    pub fn set_all(&mut self, attributes: &Attributes) -> &mut Self {
        attributes.add_to(self.message);
        self
    }

    /// Sets the status to error, with an error type out of few fixed words and a description.
    pub fn fail(&mut self, kind: &'static str, reason: &str) -> &mut Self {
        let end = reason.floor_char_boundary(MAX_DESCRIPTION);
        otlp::set_error(self.message, &reason[..end]);
        self.set("error.type", kind)
    }

    /// Adds a link to the parent, which belongs to another process.
    pub fn link_parent(&mut self) -> &mut Self {
        match self.trace.parent {
            Some(parent) => self.link_to(self.trace.trace_id, parent),
            None => self,
        }
    }

    /// Adds a link to the span of a caller whose trace is not continued.
    pub fn link_caller(&mut self, caller: Caller) -> &mut Self {
        self.link_to(caller.trace_id, caller.span_id)
    }

    /// Adds a link to another span of this process.
    pub fn link_other(&mut self, other: TraceContext) -> &mut Self {
        otlp::add_link(self.message, other.trace_id, other.span_id, false);
        self
    }

    fn link_to(&mut self, trace: TraceId, span: SpanId) -> &mut Self {
        otlp::add_link(self.message, trace, span, true);
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

/// The current span of a task, for work that another task runs; cheap to clone.
#[derive(Clone)]
pub struct Position(Option<Current>);

impl Position {
    /// Returns that of this task.
    #[must_use]
    pub fn current() -> Self {
        Self(CURRENT.try_with(Clone::clone).ok())
    }

    /// Returns the trace context of the span, with or without an exporter.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|current| current.trace)
    }

    /// Runs the work with this span as the current span.
    pub async fn run<F: Future>(self, work: F) -> F::Output {
        match self.0 {
            Some(current) => CURRENT.scope(current, work).await,
            None => work.await,
        }
    }
}

/// Keeps the current span for work that another task will run.
pub fn with_current_span<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    Position::current().run(work)
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
    use std::sync::Arc;

    use opentelemetry_proto::tonic::{
        common::v1::any_value::Value as Any,
        trace::v1::{ScopeSpans, Span as Sent, Status, span, status::StatusCode},
    };
    use parking_lot::Mutex;
    use prometheus_client::metrics::counter::Counter;
    use prost::Message as _;
    use shortener_testing::otlp::hex;
    use tokio::sync::watch;

    use super::{
        super::queue::{Chunk, Export},
        *,
    };
    use crate::budget::Budget;

    /// Keeps spans in memory, as another implementation of OTLP reads them.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Sent>>>);

    impl Export for Kept {
        async fn export(&self, batch: Vec<Chunk>) -> Result<(), String> {
            for chunk in batch {
                assert_eq!(chunk.scope, "test");
                let group = ScopeSpans::decode(chunk.items.bytes()).unwrap();
                self.0.lock().extend(group.spans);
            }
            Ok(())
        }
    }

    /// Returns the spans of the work, in the order in which they ended.
    async fn spans_of<F: Future<Output = ()>>(work: impl FnOnce(Tracer) -> F) -> Vec<Sent> {
        let (kept, end) = (Kept::default(), watch::Sender::new(true));
        let (budget, dropped) = (Budget::new(1024 * 1024), Counter::default());
        let (queue, drain) = Queue::start(kept.clone(), budget, dropped, end.subscribe());
        work(Tracer::new(queue, "test")).await;
        drain.await;
        std::mem::take(&mut *kept.0.lock())
    }

    fn attribute(span: &Sent, name: &str) -> Option<Any> {
        let mut found = span.attributes.iter().filter(|found| found.key == name);
        let value = found.next()?.value.clone().unwrap().value;
        assert!(found.next().is_none(), "{name} occurs twice");
        value
    }

    /// The flag of a sampled trace, and those of a parent of this and of another process.
    const SAMPLED: u32 = 0x1;
    const LOCAL: u32 = 0x100;
    const REMOTE: u32 = 0x300;

    #[tokio::test]
    async fn a_span_has_the_identifiers_that_were_known_before() {
        let header = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let trace = TraceContext::continuing(Some(header));
        let spans = spans_of(async |tracer| tracer.start(trace, SpanKind::Server, "GET /").end());
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(hex(&span.trace_id), trace.trace_id.to_string());
        assert_eq!(hex(&span.span_id), trace.span_id.to_string());
        assert_eq!(hex(&span.parent_span_id), "b7ad6b7169203331");
        // The sampled flag of the caller is ignored.
        assert_eq!(span.flags, SAMPLED | REMOTE);
        assert_eq!(
            (&*span.name, span.kind()),
            ("GET /", span::SpanKind::Server)
        );
        assert_eq!(span.status, None);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
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
        let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["first", "carried", "whole"]);
        for part in &spans[..2] {
            assert_eq!(hex(&part.trace_id), trace.trace_id.to_string());
            assert_eq!(hex(&part.parent_span_id), trace.span_id.to_string());
            assert_eq!(part.flags, SAMPLED | LOCAL);
        }
        assert!(spans[2].parent_span_id.is_empty());
    }

    #[tokio::test]
    async fn work_that_is_given_up_says_so() {
        let spans = spans_of(async |tracer| {
            let trace = TraceContext::continuing(None);
            drop(tracer.start(trace, SpanKind::Client, "MGET"));
        });
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(attribute(span, CANCELLED), Some(Any::BoolValue(true)));
        assert_eq!(attribute(span, "error.type"), None);
        assert_eq!(span.status, None, "nothing has failed");
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
        let expected = Status {
            message: "ä".repeat(MAX_DESCRIPTION / 2),
            code: StatusCode::Error.into(),
        };
        assert_eq!(span.status, Some(expected));
        let kind = Any::StringValue("timeout".to_owned());
        assert_eq!(attribute(span, "error.type"), Some(kind));
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
        let link = &processing.links[0];
        assert_eq!(link.span_id, publication.span_id);
        assert_eq!(link.trace_id, publication.trace_id);
        assert_eq!(link.flags, SAMPLED | REMOTE);
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
        assert!(span.parent_span_id.is_empty());
        let link = &span.links[0];
        assert_eq!(hex(&link.trace_id), caller.trace_id.to_string());
        assert_eq!(hex(&link.span_id), "b7ad6b7169203331");
        assert_ne!(link.trace_id, span.trace_id);
    }

    #[tokio::test]
    async fn another_span_of_this_process_can_be_linked() {
        let other = TraceContext::root();
        let spans = spans_of(async |tracer| {
            let mut span = tracer.start(TraceContext::root(), SpanKind::Internal, "x");
            span.describe().unwrap().link_other(other);
            span.end();
        });
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(span.kind(), span::SpanKind::Internal);
        let link = &span.links[0];
        assert_eq!(hex(&link.trace_id), other.trace_id.to_string());
        assert_eq!(hex(&link.span_id), other.span_id.to_string());
        assert_eq!(link.flags, SAMPLED | LOCAL);
    }

    #[tokio::test]
    async fn a_position_outlives_its_task_and_can_be_used_again() {
        let trace = TraceContext::root();
        let spans = spans_of(async |tracer| {
            let whole = tracer.start(trace, SpanKind::Server, "whole");
            let position = in_span(&whole, async { Position::current() }).await;
            assert_eq!(position.trace(), Some(trace));
            for _ in 0..2 {
                let work = async { part(SpanKind::Client, || "part").unwrap().end() };
                tokio::spawn(position.clone().run(work)).await.unwrap();
            }
            whole.end();
        });
        for part in &spans.await[..2] {
            assert_eq!(hex(&part.parent_span_id), trace.span_id.to_string());
        }
        assert_eq!(Position::current().trace(), None);
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
