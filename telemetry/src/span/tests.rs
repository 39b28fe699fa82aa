use std::sync::Arc;

use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SpanData, SpanProcessor},
};
use parking_lot::Mutex;

use super::*;
use crate::{Service, Telemetry};

/// Keeps spans that ended.
#[derive(Clone, Debug, Default)]
struct KeptSpans(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for KeptSpans {
    fn on_start(&self, _: &mut sdk::Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: std::time::Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Returns the spans of the work, in the order in which they ended.
async fn spans_of<F: Future<Output = ()>>(work: impl FnOnce(Tracer) -> F) -> Vec<SpanData> {
    spans_of_share(1.0, work).await
}

/// Returns the spans of the work if this share of all traces is exported.
async fn spans_of_share<F: Future<Output = ()>>(
    ratio: f64,
    work: impl FnOnce(Tracer) -> F,
) -> Vec<SpanData> {
    let kept = KeptSpans::default();
    let service = Service {
        name: "test",
        version: "1",
        host: "pod-1",
    };
    let telemetry = Telemetry::to(kept.clone(), service, ratio);
    work(telemetry.tracer()).await;
    let spans = std::mem::take(&mut *kept.0.lock());
    for span in &spans {
        assert_eq!(span.instrumentation_scope.name(), "test");
        assert!(span.span_context.is_sampled() && span.end_time >= span.start_time);
    }
    spans
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| &*span.name).collect()
}

fn attribute(span: &SpanData, name: &str) -> Option<Value> {
    let mut found = span
        .attributes
        .iter()
        .filter(|set| set.key.as_str() == name);
    let value = found.next().map(|set| set.value.clone());
    assert!(found.next().is_none(), "{name} occurs twice");
    value
}

#[tokio::test]
async fn a_span_has_the_identifiers_that_were_known_before() {
    let header = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    // The sampled flag of the caller is ignored.
    for trace in [TraceContext::root(), TraceContext::continuing(Some(header))] {
        let spans = spans_of(async |tracer| tracer.start(trace, SpanKind::Server, "GET /").end());
        let [span] = &spans.await[..] else { panic!() };
        assert_eq!(span.span_context.trace_id(), trace.trace_id);
        assert_eq!(span.span_context.span_id(), trace.span_id);
        let parent = trace.parent.unwrap_or(SpanId::INVALID);
        assert_eq!(span.parent_span_id, parent);
        assert_eq!(span.parent_span_is_remote, trace.parent.is_some());
        assert_eq!((&*span.name, &span.span_kind), ("GET /", &SpanKind::Server));
        assert_eq!(span.status, Status::Unset);
    }
}

#[tokio::test]
async fn what_is_awaited_within_a_span_is_a_part_of_it() {
    let trace = TraceContext::root();
    let spans = spans_of(async |tracer| {
        assert!(child(SpanKind::Client, || "before").is_none() && current().is_none());
        let whole = tracer.start(trace, SpanKind::Server, "whole");
        let work = in_span(&whole, async {
            assert_eq!(current(), Some(trace));
            child(SpanKind::Client, || "first").unwrap().end();
            let carried =
                with_current_span(async { child(SpanKind::Client, || "carried").unwrap().end() });
            tokio::spawn(carried).await.unwrap();
            let lost = tokio::spawn(async { child(SpanKind::Client, || "lost").is_none() });
            assert!(lost.await.unwrap());
            let work = async { child(SpanKind::Client, || "request").unwrap().end() };
            part("step", work, |()| None).await;
        });
        work.await;
        whole.end();
    });
    let spans = spans.await;
    assert_eq!(
        names(&spans),
        ["first", "carried", "request", "step", "whole"]
    );
    for (number, parent) in [(0, 4), (1, 4), (2, 3), (3, 4)] {
        let (part, parent) = (&spans[number], &spans[parent].span_context);
        assert_eq!(part.span_context.trace_id(), trace.trace_id);
        assert_eq!(part.parent_span_id, parent.span_id());
        assert!(!part.parent_span_is_remote);
    }
}

#[tokio::test]
async fn a_trace_that_is_left_out_has_no_span_at_all() {
    let spans = spans_of_share(0.0, async |tracer| {
        assert!(tracer.is_on() && tracer.root("whole").is_none());
        part("step", async {}, |()| None).await;
    });
    assert_eq!(names(&spans.await), [""; 0]);
    assert!(Tracer::default().root("whole").is_none());
}

#[tokio::test]
async fn the_parts_of_a_trace_follow_the_decision_about_its_first_span() {
    let mut traced = 0;
    let spans = spans_of_share(0.5, async |tracer| {
        for _ in 0..100 {
            let Some(whole) = tracer.root("whole") else {
                continue;
            };
            traced += 1;
            in_span(&whole, part("step", async {}, |()| None)).await;
            whole.end();
        }
    });
    let spans = spans.await;
    assert!((1..100).contains(&traced), "{traced}");
    assert_eq!(spans.len(), 2 * traced);
}

#[tokio::test]
async fn work_that_is_given_up_says_so() {
    let spans = spans_of(async |tracer| {
        drop(tracer.start(TraceContext::root(), SpanKind::Client, "MGET"));
    });
    let [span] = &spans.await[..] else { panic!() };
    assert_eq!(span.attributes, [KeyValue::new(CANCELLED, true)]);
    assert_eq!(span.status, Status::Unset, "nothing has failed");
}

#[tokio::test]
async fn a_failure_is_described_within_bounds() {
    let reason = "ä".repeat(MAX_DESCRIPTION);
    let spans = spans_of(async |tracer| {
        let whole = tracer.root("whole").unwrap();
        let work = async { Err::<(), _>(reason.clone()) };
        let failure = |result: &Result<(), String>| Some(("timeout", result.clone().err()?));
        let result = in_span(&whole, part("step", work, failure)).await;
        assert!(result.is_err());
    });
    let span = &spans.await[0];
    assert_eq!(span.status, Status::error("ä".repeat(MAX_DESCRIPTION / 2)));
    assert_eq!(attribute(span, "error.type"), Some("timeout".into()));
}

#[tokio::test]
async fn only_a_parent_elsewhere_can_be_linked() {
    let spans = spans_of(async |tracer| {
        let publication = TraceContext::root();
        let header = publication.traceparent();
        for trace in [
            publication,
            TraceContext::continuing(Some(header.as_bytes())),
        ] {
            let mut span = tracer.start(trace, SpanKind::Consumer, "process jobs");
            span.link_parent();
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
    assert!(link.is_remote() && link.is_sampled());
}

#[tokio::test]
async fn a_caller_can_be_linked_without_being_the_parent() {
    let caller = TraceContext::root();
    let spans = spans_of(async |tracer| {
        let mut span = tracer.start(TraceContext::root(), SpanKind::Server, "GET /");
        span.link_caller(Caller {
            trace_id: caller.trace_id,
            span_id: caller.span_id,
        });
        span.end();
    });
    let [span] = &spans.await[..] else { panic!() };
    assert_eq!(span.parent_span_id, SpanId::INVALID);
    let link = &span.links[0].span_context;
    assert_eq!(link.trace_id(), caller.trace_id);
    assert_eq!(link.span_id(), caller.span_id);
    assert!(link.is_remote() && link.is_sampled());
}

#[tokio::test]
async fn the_current_span_outlives_its_task_and_can_be_used_again() {
    let trace = TraceContext::root();
    let spans = spans_of(async |tracer| {
        let whole = tracer.start(trace, SpanKind::Server, "whole");
        let current = in_span(&whole, async { CurrentSpan::current() }).await;
        for _ in 0..2 {
            let work = async { child(SpanKind::Client, || "part").unwrap().end() };
            tokio::spawn(current.clone().run(work)).await.unwrap();
        }
        whole.end();
    });
    for part in &spans.await[..2] {
        assert_eq!(part.parent_span_id, trace.span_id);
    }
}

#[test]
fn without_an_exporter_there_is_a_position_and_nothing_else() {
    let trace = TraceContext::root();
    let span = Tracer::default().start(trace, SpanKind::Server, "GET /");
    assert_eq!(span.trace(), trace);
    assert!(!span.is_recording());
    let part = span.tracer.start_part(trace, SpanKind::Producer, "x");
    assert_eq!(part.trace().parent, Some(trace.span_id));
}
