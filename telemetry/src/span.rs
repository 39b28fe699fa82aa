//! Spans with identifiers that are known in advance, exported when they end.
//!
//! Log lines, exemplars and responses contain these identifiers with or without an exporter. The current span is visible to
//! everything that is awaited inside [`in_span`], so a step or a call to a server becomes its child without passing a
//! parent.

mod given;

use std::borrow::Cow;

use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId,
    trace::{
        Span as _, SpanBuilder, SpanContext, Status, TraceContextExt, TraceState, Tracer as _,
    },
};
pub use opentelemetry::{KeyValue, Value, trace::SpanKind};
use opentelemetry_sdk::trace::{self as sdk, SdkTracer};

pub(crate) use self::given::Given;
use crate::trace::{Caller, TraceContext};

/// The error type of a failure of which only the text is known.
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/>
pub const OTHER: &str = "_OTHER";

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

/// The factory of the spans of a process; it creates none without an exporter. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<SdkTracer>);

impl Tracer {
    pub(crate) fn new(tracer: SdkTracer) -> Self {
        Self(Some(tracer))
    }

    /// Returns true if spans are exported.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a trace with its first span, or returns `None` without an exporter and for a trace that is left out. The
    /// parts of a trace follow this decision.
    #[must_use]
    pub fn root(&self, name: &'static str) -> Option<Span> {
        self.0.as_ref()?;
        let span = self.start(TraceContext::root(), SpanKind::Internal, name);
        span.is_recording().then_some(span)
    }

    /// Starts the span for this position in a trace. Its parent, if it has one, belongs to another process, and whatever the
    /// sampling decision of that one is, the span is exported.
    #[must_use]
    pub fn start(
        &self,
        trace: TraceContext,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
    ) -> Span {
        self.begin(trace, kind, name, true)
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
        let begun = |tracer: &SdkTracer| {
            given::set(trace);
            let parent = trace.parent.map_or_else(Context::new, |parent| {
                let parent = position(trace.trace_id, parent, parent_is_remote);
                Context::new().with_remote_span_context(parent)
            });
            let builder = SpanBuilder {
                span_kind: Some(kind),
                attributes: Some(Vec::with_capacity(ATTRIBUTES)),
                ..SpanBuilder::from_name(name)
            };
            tracer.build_with_context(builder, &parent)
        };
        Span {
            span: self.0.as_ref().map(begun),
            tracer: self.clone(),
            trace,
        }
    }
}

fn position(trace: TraceId, span: SpanId, is_remote: bool) -> SpanContext {
    SpanContext::new(
        trace,
        span,
        TraceFlags::SAMPLED,
        is_remote,
        TraceState::NONE,
    )
}

/// A span in progress. If it is dropped before it is [ended](Span::end), the work was cancelled: the span says so, and
/// its status stays unset, because work that nothing waits for any more has not failed.
#[derive(Debug)]
pub struct Span {
    tracer: Tracer,
    trace: TraceContext,
    /// The span as it will be exported; `None` without an exporter, and once it has ended.
    span: Option<sdk::Span>,
}

impl Span {
    /// Returns its position in the trace.
    pub fn trace(&self) -> TraceContext {
        self.trace
    }

    /// Returns true if the span will be exported. Otherwise what describes it need not be computed.
    pub fn is_recording(&self) -> bool {
        self.span.as_ref().is_some_and(|span| span.is_recording())
    }

    /// Adds an attribute, by OpenTelemetry's semantic conventions. It must not contain secrets, nor more of a client's input
    /// than the log may contain.
    /// <https://opentelemetry.io/docs/specs/semconv/>
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) -> &mut Self {
        if let Some(span) = &mut self.span {
            span.set_attribute(KeyValue::new(name, value));
        }
        self
    }

    /// Adds several attributes.
    pub fn set_all(&mut self, attributes: &[KeyValue]) -> &mut Self {
        if let Some(span) = &mut self.span {
            span.set_attributes(attributes.iter().cloned());
        }
        self
    }

    /// Sets the status to error, with an error type out of few fixed words and a description.
    pub fn fail(&mut self, kind: impl Into<Value>, description: &str) -> &mut Self {
        if let Some(span) = &mut self.span {
            let end = description.floor_char_boundary(MAX_DESCRIPTION);
            span.set_status(Status::error(description[..end].to_owned()));
        }
        self.set("error.type", kind)
    }

    /// Adds a link to the parent, which belongs to another process.
    pub fn link_parent(&mut self) -> &mut Self {
        match self.trace.parent {
            Some(parent) => self.link(position(self.trace.trace_id, parent, true)),
            None => self,
        }
    }

    /// Adds a link to the span of a caller whose trace is not continued.
    pub fn link_caller(&mut self, caller: Caller) -> &mut Self {
        self.link(position(caller.trace_id, caller.span_id, true))
    }

    fn link(&mut self, other: SpanContext) -> &mut Self {
        if let Some(span) = &mut self.span {
            span.add_link(other, Vec::new());
        }
        self
    }

    /// Ends the span and exports it.
    pub fn end(mut self) {
        if let Some(mut span) = self.span.take() {
            span.end();
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.set(CANCELLED, true);
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
pub struct CurrentSpan(Option<Current>);

impl CurrentSpan {
    /// Returns that of this task.
    pub fn current() -> Self {
        Self(CURRENT.try_with(Clone::clone).ok())
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
    CurrentSpan::current().run(work)
}

/// Returns the trace context of the current span, with or without an exporter.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|current| current.trace).ok()
}

/// Starts a child of the current span; `None` without a span or an exporter, and then `name` is not called.
#[must_use]
pub fn child<N: Into<Cow<'static, str>>>(kind: SpanKind, name: impl FnOnce() -> N) -> Option<Span> {
    let begin = |current: &Current| {
        let tracer = &current.tracer;
        let span = || tracer.start_part(current.trace, kind, name());
        tracer.is_on().then(span)
    };
    CURRENT.try_with(begin).ok().flatten()
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
mod tests;
