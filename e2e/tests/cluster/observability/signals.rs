//! Checks of spans and log records.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use shortener_e2e::{Link, Record, Span, Stack, Trace, pods_of};

/// Checks that the app published a job for a request and that a worker processed it, with the
/// publication as parent and link.
pub(super) fn is_a_job_of(request: &Span, trace: &Trace, trace_id: &str) -> Result<()> {
    ensure!(
        (request.kind.as_str(), request.service.as_str()) == ("SERVER", "app"),
        "{request:?}"
    );
    let (published, processed) = (trace.span("publish jobs")?, trace.span("process jobs")?);
    is_part(published, request, "PRODUCER", "app")?;
    is_part(processed, published, "CONSUMER", "worker")?;
    let link = Link {
        trace_id: trace_id.to_owned(),
        span_id: published.span_id.clone(),
    };
    ensure!(processed.links == [link], "{processed:?}");
    Ok(())
}

/// Checks that a span is a child of another one and has no error.
pub(super) fn is_part(span: &Span, whole: &Span, kind: &str, service: &str) -> Result<()> {
    let right = span.parent_span_id == whole.span_id
        && (span.kind.as_str(), span.service.as_str()) == (kind, service)
        && span.status == "UNSET";
    ensure!(right, "no {kind} of the {service} in {whole:?}: {span:?}");
    Ok(())
}

/// Checks that the attributes of a span name the pod and the stack that sent it.
pub(super) async fn from(stack: &Stack, span: &Span, component: &str) -> Result<()> {
    let pod = pod_of(stack, component).await?;
    let deployment = format!("{}-{component}", stack.name);
    for (name, value) in [
        ("service.name", component),
        ("service.instance.id", pod.as_str()),
        ("k8s.pod.name", pod.as_str()),
        ("k8s.namespace.name", stack.namespace.as_str()),
        ("k8s.deployment.name", deployment.as_str()),
        ("shortener.stack", stack.name.as_str()),
    ] {
        ensure!(
            span.resource[name] == value,
            "{name} is not {value}: {span:?}"
        );
    }
    Ok(())
}

/// Checks that the body of a record is the name of its event, and that its attributes lead to a span of the trace.
pub(super) fn leads_back(record: &Record, trace: &Trace, trace_id: &str) -> Result<()> {
    let attributes = &record.attributes;
    ensure!(attributes["event"] == record.body.as_str(), "{record:?}");
    ensure!(attributes["trace_id"] == trace_id, "{record:?}");
    ensure!(
        attributes["span_id"] == record.span_id.as_str(),
        "{record:?}"
    );
    let known = trace.0.iter().any(|span| span.span_id == record.span_id);
    ensure!(known, "the trace has no span of the record {record:?}");
    Ok(())
}

/// Returns the name of the only pod of a component.
pub(super) async fn pod_of(stack: &Stack, component: &str) -> Result<String> {
    let pods = pods_of(stack, component).await?;
    let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
    ensure!(names.len() == 1, "{names:?}");
    Ok(names.concat())
}
