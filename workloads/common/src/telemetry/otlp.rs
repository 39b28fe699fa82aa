//! The OTLP messages of a program: spans, log records, and the request that contains a batch of either.
//!
//! Fields may come in any order, so a message is written while its span or its event is described. The numbers of fields
//! are those of the definitions.
//! <https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto>

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    queue::Chunk,
    wire::{Message, Value, prefixed},
};
use crate::trace::{SpanId, TraceContext, TraceId};

/// The size of a usual span or log record in bytes.
const USUAL: usize = 512;

/// The flag of a sampled trace: every trace is.
const SAMPLED: u32 = 0x1;
/// The flags of a parent, or of the other end of a link: of this process, and of another one.
const LOCAL: u32 = 0x100;
const REMOTE: u32 = 0x300;

/// Fields of a message `Span`.
mod span {
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const PARENT_SPAN_ID: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START_TIME: u32 = 7;
    pub(super) const END_TIME: u32 = 8;
    pub(super) const ATTRIBUTES: u32 = 9;
    pub(super) const LINKS: u32 = 13;
    pub(super) const STATUS: u32 = 15;
    pub(super) const FLAGS: u32 = 16;
}

/// Fields of a message `LogRecord`.
mod record {
    pub(super) const TIME: u32 = 1;
    pub(super) const SEVERITY_NUMBER: u32 = 2;
    pub(super) const SEVERITY_TEXT: u32 = 3;
    pub(super) const BODY: u32 = 5;
    pub(super) const ATTRIBUTES: u32 = 6;
    pub(super) const FLAGS: u32 = 8;
    pub(super) const TRACE_ID: u32 = 9;
    pub(super) const SPAN_ID: u32 = 10;
    pub(super) const OBSERVED_TIME: u32 = 11;
}

/// Encoded attributes that many spans have; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Arc<Message>);

impl Attributes {
    /// Returns a copy with one more attribute.
    #[must_use]
    pub fn with<'v>(&self, name: &'static str, value: impl Into<Value<'v>>) -> Self {
        let mut message = Message::clone(&self.0);
        add_attribute(&mut message, name, value.into());
        Self(Arc::new(message))
    }

    /// Appends the attributes to a span.
    pub(super) fn add_to(&self, span: &mut Message) {
        span.extend(&self.0);
    }
}

/// Returns a message `Span` without its end. `kind` is the number of the span's kind.
pub(super) fn begin_span(
    trace: TraceContext,
    kind: u64,
    name: &str,
    start: SystemTime,
    parent_is_remote: bool,
) -> Message {
    let mut message = Message::with_capacity(USUAL);
    message.nested(span::TRACE_ID, &trace.trace_id.to_bytes());
    message.nested(span::SPAN_ID, &trace.span_id.to_bytes());
    if let Some(parent) = trace.parent {
        message.nested(span::PARENT_SPAN_ID, &parent.to_bytes());
    }
    let parent = if parent_is_remote { REMOTE } else { LOCAL };
    message.fixed32(span::FLAGS, SAMPLED | parent);
    message.nested(span::NAME, name.as_bytes());
    message.integer(span::KIND, kind);
    message.fixed64(span::START_TIME, nanoseconds(start));
    message
}

/// Completes a message `Span`.
pub(super) fn end_span(message: &mut Message, end: SystemTime) {
    message.fixed64(span::END_TIME, nanoseconds(end));
}

/// Adds an attribute to a span.
pub(super) fn add_attribute(message: &mut Message, name: &str, value: Value<'_>) {
    message.attribute(span::ATTRIBUTES, name, value);
}

/// Adds a link to a span, of this or of another process.
pub(super) fn add_link(message: &mut Message, trace: TraceId, other: SpanId, is_remote: bool) {
    let mut link = Message::with_capacity(40);
    link.nested(1, &trace.to_bytes());
    link.nested(2, &other.to_bytes());
    link.fixed32(6, SAMPLED | if is_remote { REMOTE } else { LOCAL });
    message.nested(span::LINKS, link.bytes());
}

/// Sets the status of a span to error.
pub(super) fn set_error(message: &mut Message, description: &str) {
    // The code after the description.
    message.begin_nested(span::STATUS, 1 + prefixed(description.len()) + 2);
    message.nested(2, description.as_bytes());
    message.integer(3, 2);
}

/// A message `LogRecord` under construction.
#[derive(Debug)]
pub(crate) struct Record(Message);

impl Record {
    /// Returns a record of this time and severity.
    pub(crate) fn new(time: SystemTime, severity: Severity) -> Self {
        let (time, (number, text)) = (nanoseconds(time), severity);
        let mut message = Message::with_capacity(USUAL);
        message.fixed64(record::TIME, time);
        message.fixed64(record::OBSERVED_TIME, time);
        message.integer(record::SEVERITY_NUMBER, number);
        message.nested(record::SEVERITY_TEXT, text.as_bytes());
        Self(message)
    }

    /// Sets the body.
    pub(crate) fn body<'v>(&mut self, value: impl Into<Value<'v>>) {
        self.0.value(record::BODY, value.into());
    }

    /// Adds an attribute.
    pub(crate) fn attribute<'v>(&mut self, name: &str, value: impl Into<Value<'v>>) {
        self.0.attribute(record::ATTRIBUTES, name, value.into());
    }

    /// Sets the position in a trace, which is the place that backends use.
    pub(crate) fn position(&mut self, trace: TraceId, span: SpanId) {
        self.0.nested(record::TRACE_ID, &trace.to_bytes());
        self.0.nested(record::SPAN_ID, &span.to_bytes());
        self.0.fixed32(record::FLAGS, SAMPLED);
    }

    /// Returns the finished message.
    pub(super) fn message(&self) -> &Message {
        &self.0
    }
}

/// The number and the name of a severity.
pub(crate) type Severity = (u64, &'static str);

/// Returns the message `ExportTraceServiceRequest` or `ExportLogsServiceRequest` with a batch; both have the same form.
/// `resource` is a message `Resource`, and `version` that of the instrumentation scopes, if they have one.
pub(super) fn request(resource: &Message, version: &str, batch: &[Chunk]) -> Vec<u8> {
    let scopes: Vec<Message> = batch
        .iter()
        .map(|chunk| scope(chunk.scope, version))
        .collect();
    let length = |(scope, chunk): (&Message, &Chunk)| {
        1 + prefixed(scope.bytes().len()) + chunk.items.bytes().len()
    };
    let groups = || scopes.iter().zip(batch);
    let inner: usize = groups().map(|group| 1 + prefixed(length(group))).sum();
    let outer = 1 + prefixed(resource.bytes().len()) + inner;

    let mut request = Message::with_capacity(1 + prefixed(outer));
    request.begin_nested(1, outer);
    request.nested(1, resource.bytes());
    for (scope, chunk) in groups() {
        request.begin_nested(2, length((scope, chunk)));
        request.nested(1, scope.bytes());
        request.fields(chunk.items.bytes());
    }
    request.into_bytes()
}

/// Returns a message `InstrumentationScope`.
fn scope(name: &str, version: &str) -> Message {
    let mut message = Message::default();
    message.nested(1, name.as_bytes());
    if !version.is_empty() {
        message.nested(2, version.as_bytes());
    }
    message
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
