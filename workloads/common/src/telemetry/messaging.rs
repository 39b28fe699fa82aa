//! The producer and consumer spans of a job, by the semantic conventions for RabbitMQ.
//!
//! <https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/>

use uuid::Uuid;

use super::span::{Span, SpanKind, Tracer};
use crate::{queue::topology::JOBS, trace::TraceContext};

/// Starts the span of a publication, as a child of the request if there is one. The message carries its context.
pub fn publish(tracer: &Tracer, request: Option<TraceContext>, id: Uuid, bytes: usize) -> Span {
    let (kind, name) = (SpanKind::Producer, "publish jobs");
    let mut span = match request {
        Some(request) => tracer.start_part(request, kind, name),
        None => tracer.start(TraceContext::root(), kind, name),
    };
    span.set("messaging.operation.name", "publish")
        .set("messaging.operation.type", "send");
    describe_message(&mut span, Some(id), bytes);
    span
}

/// Starts the span of one delivery: a child of its publication, and linked to it.
pub fn process(tracer: &Tracer, work: TraceContext, id: Option<Uuid>, bytes: usize) -> Span {
    let mut span = tracer.start(work, SpanKind::Consumer, "process jobs");
    span.link_parent()
        .set("messaging.operation.name", "process")
        .set("messaging.operation.type", "process");
    describe_message(&mut span, id, bytes);
    span
}

fn describe_message(span: &mut Span, id: Option<Uuid>, bytes: usize) {
    span.set("messaging.system", "rabbitmq")
        .set("messaging.destination.name", JOBS)
        .set("messaging.rabbitmq.destination.routing_key", JOBS)
        .set(
            "messaging.message.body.size",
            i64::try_from(bytes).unwrap_or(i64::MAX),
        );
    if let Some(id) = id.filter(|_| span.is_recording()) {
        span.set("messaging.message.id", id.to_string());
    }
}
