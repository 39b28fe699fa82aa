//! Conversion of filters to the JSON of the HTTP API, so that the engine parses and checks both in the same way.

use qdrant_client::qdrant::{self as wire, condition::ConditionOneOf, r#match::MatchValue};
use qdrant_edge::Filter;
use serde_json::{Map, Value, json};
use tonic::Status;

use super::{refuse, unknown};

/// Converts the filter of a message.
///
/// # Errors
/// `UNIMPLEMENTED` for an unsupported condition, `INVALID_ARGUMENT` for one that the engine refuses.
pub fn filter(filter: wire::Filter) -> Result<Filter, Status> {
    serde_json::from_value(clauses(filter)?)
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

fn clauses(filter: wire::Filter) -> Result<Value, Status> {
    let mut clauses = Map::new();
    for (name, conditions) in [
        ("must", filter.must),
        ("should", filter.should),
        ("must_not", filter.must_not),
    ] {
        if !conditions.is_empty() {
            clauses.insert(name.to_owned(), all(conditions)?);
        }
    }
    if let Some(least) = filter.min_should {
        let least = json!({"conditions": all(least.conditions)?, "min_count": least.min_count});
        clauses.insert("min_should".to_owned(), least);
    }
    Ok(clauses.into())
}

fn all(conditions: Vec<wire::Condition>) -> Result<Value, Status> {
    conditions.into_iter().map(condition).collect()
}

fn condition(condition: wire::Condition) -> Result<Value, Status> {
    match condition.condition_one_of {
        Some(ConditionOneOf::Field(condition)) => field(condition),
        Some(ConditionOneOf::IsEmpty(condition)) => Ok(json!({"is_empty": {"key": condition.key}})),
        Some(ConditionOneOf::IsNull(condition)) => Ok(json!({"is_null": {"key": condition.key}})),
        Some(ConditionOneOf::HasId(condition)) => {
            let ids: Vec<_> = condition
                .has_id
                .into_iter()
                .map(super::convert::id)
                .collect::<Result<_, _>>()?;
            Ok(json!({"has_id": ids}))
        }
        Some(ConditionOneOf::Filter(filter)) => clauses(filter),
        Some(_) => Err(unknown("this kind of condition")),
        None => Err(Status::invalid_argument("Malformed Condition type")),
    }
}

fn field(condition: wire::FieldCondition) -> Result<Value, Status> {
    let wire::FieldCondition {
        key,
        r#match: matched,
        range,
        ..
    } = condition.clone();
    let rest = wire::FieldCondition {
        key: String::new(),
        r#match: None,
        range: None,
        ..condition
    };
    refuse(
        "conditions on a field besides match and range",
        rest != wire::FieldCondition::default(),
    )?;
    let mut field = Map::new();
    field.insert("key".to_owned(), key.into());
    if let Some(matched) = matched.and_then(|matched| matched.match_value) {
        field.insert("match".to_owned(), value(matched)?);
    }
    if let Some(range) = range {
        let range = json!({"lt": range.lt, "gt": range.gt, "gte": range.gte, "lte": range.lte});
        field.insert("range".to_owned(), range);
    }
    Ok(field.into())
}

fn value(value: MatchValue) -> Result<Value, Status> {
    match value {
        MatchValue::Keyword(keyword) => Ok(json!({"value": keyword})),
        MatchValue::Integer(integer) => Ok(json!({"value": integer})),
        MatchValue::Boolean(boolean) => Ok(json!({"value": boolean})),
        MatchValue::Text(text) => Ok(json!({"text": text})),
        MatchValue::Keywords(any) => Ok(json!({"any": any.strings})),
        MatchValue::Integers(any) => Ok(json!({"any": any.integers})),
        MatchValue::ExceptKeywords(except) => Ok(json!({"except": except.strings})),
        MatchValue::ExceptIntegers(except) => Ok(json!({"except": except.integers})),
        _ => Err(unknown("this kind of match")),
    }
}
