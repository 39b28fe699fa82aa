//! Spans and log records as JSON.

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    resource::v1::Resource,
    trace::v1::Span,
};
use serde_json::{Map, Value, json};

/// Formats a span with its resource.
pub(super) fn span(resource: &Resource, span: &Span) -> Value {
    let kind = span.kind().as_str_name();
    let status = span.status.clone().unwrap_or_default();
    let links: Vec<Value> = span
        .links
        .iter()
        .map(|link| json!({"trace_id": hex(&link.trace_id), "span_id": hex(&link.span_id)}))
        .collect();
    json!({
        "trace_id": hex(&span.trace_id),
        "span_id": hex(&span.span_id),
        "parent_span_id": hex(&span.parent_span_id),
        "name": span.name,
        "kind": kind.trim_start_matches("SPAN_KIND_"),
        "service": service(resource),
        "resource": attributes(&resource.attributes),
        "attributes": attributes(&span.attributes),
        "links": links,
        "status": status.code().as_str_name().trim_start_matches("STATUS_CODE_"),
        "status_message": status.message,
        "start": span.start_time_unix_nano as f64 / 1e9,
        "duration": (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e9,
    })
}

/// Formats a log record with its resource.
pub(super) fn record(resource: &Resource, record: &LogRecord) -> Value {
    json!({
        "body": record.body.as_ref().map(any),
        "severity": record.severity_text,
        "trace_id": hex(&record.trace_id),
        "span_id": hex(&record.span_id),
        "service": service(resource),
        "resource": attributes(&resource.attributes),
        "attributes": attributes(&record.attributes),
    })
}

/// Formats an identifier in hexadecimal; an empty one as an empty string.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn service(resource: &Resource) -> Value {
    attributes(&resource.attributes)["service.name"].take()
}

fn attributes(attributes: &[KeyValue]) -> Value {
    let mut shown = Map::new();
    for attribute in attributes {
        let value = attribute.value.as_ref().map_or(Value::Null, any);
        let earlier = shown.insert(attribute.key.clone(), value);
        assert!(earlier.is_none(), "{} occurs twice", attribute.key);
    }
    Value::Object(shown)
}

fn any(value: &AnyValue) -> Value {
    match &value.value {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(truth)) => json!(truth),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::DoubleValue(number)) => json!(number),
        Some(Any::ArrayValue(array)) => array.values.iter().map(any).collect(),
        Some(Any::KvlistValue(list)) => attributes(&list.values),
        Some(Any::BytesValue(bytes)) => json!(hex(bytes)),
        _ => Value::Null,
    }
}
