//! Conversion of filters to the JSON of the HTTP API, so that the engine parses and checks both in the same way.

use qdrant_client::qdrant::{self as wire, condition::ConditionOneOf, r#match::MatchValue};
use qdrant_edge::Filter;
use serde_json::{Value, json};
use tonic::Status;

use super::{refuse, unknown};

/// Converts the filter of a message.
///
/// # Errors
/// `UNIMPLEMENTED` for anything but fields that must have a value, `INVALID_ARGUMENT` for what the engine refuses.
pub fn filter(filter: wire::Filter) -> Result<Filter, Status> {
    let wire::Filter {
        must,
        should,
        must_not,
        min_should,
    } = filter;
    refuse(
        "clauses of a filter besides must",
        !should.is_empty() || !must_not.is_empty() || min_should.is_some(),
    )?;
    let conditions: Value = must.into_iter().map(condition).collect::<Result<_, _>>()?;
    serde_json::from_value(json!({"must": conditions}))
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

fn condition(condition: wire::Condition) -> Result<Value, Status> {
    let Some(ConditionOneOf::Field(condition)) = condition.condition_one_of else {
        return Err(unknown("conditions on anything but a field"));
    };
    let (key, matched) = (condition.key, condition.r#match);
    let rest = wire::FieldCondition {
        key: String::new(),
        r#match: None,
        ..condition
    };
    refuse(
        "conditions on a field besides match",
        rest != wire::FieldCondition::default(),
    )?;
    let value = match matched.and_then(|matched| matched.match_value) {
        Some(MatchValue::Keyword(keyword)) => json!(keyword),
        Some(MatchValue::Integer(integer)) => json!(integer),
        Some(MatchValue::Boolean(boolean)) => json!(boolean),
        _ => return Err(unknown("this kind of match")),
    };
    Ok(json!({"key": key, "match": {"value": value}}))
}
