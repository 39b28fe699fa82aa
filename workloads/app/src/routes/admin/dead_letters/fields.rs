//! The parsers of a choice and of the query of a list.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    super::{page_size, parameters, reason as reason_of},
    bodies::SweepRequest,
};
use crate::{body, error::Error, faults::Faults, publisher::letters::Choice};

/// The maximum number of identifiers in a choice.
const MAX_IDS: usize = 100;
/// The maximum number of dead letters before a page.
const MAX_SKIP: usize = 1_000_000;

/// Parses the query of a list. Returns the number of dead letters to skip, and that of a page.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid parameter.
pub(super) fn page(query: Option<&str>) -> Result<(usize, usize), Error> {
    let mut faults = Faults::default();
    let [skip, limit] = parameters(query, ["skip", "limit"], &mut faults);
    let limit = page_size(limit, &mut faults);
    let skip = skip.map_or(0, |skip| {
        let number = skip.parse().ok().filter(|number| *number <= MAX_SKIP);
        let rule = || format!("must be a whole number from 0 to {MAX_SKIP}");
        faults.value("skip", number.ok_or_else(rule))
    });
    faults.end((skip, limit))
}

/// Parses a choice. Returns it with its reason.
///
/// # Errors
/// Returns [`Error::InvalidFields`] unless it is either a list of identifiers or everything, and the reason a text.
pub(super) fn choice(body: Map<String, Value>) -> Result<(Choice, Option<String>), Error> {
    let SweepRequest { ids, all, reason } = body::fields(body)?;
    let mut faults = Faults::default();
    let reason = reason_of(reason, &mut faults);
    faults.end(())?;
    Ok((chosen(ids, all)?, reason))
}

fn chosen(ids: Option<Value>, all: Option<Value>) -> Result<Choice, Error> {
    match (ids, all) {
        (None, Some(Value::Bool(true))) => Ok(Choice::All),
        (Some(ids), None | Some(Value::Bool(false))) => ids_of(ids).map(Choice::Ids),
        (Some(_), Some(Value::Bool(true))) => {
            Err(Error::invalid("all", "must not be combined with ids"))
        }
        (_, Some(other)) if !other.is_boolean() => {
            Err(Error::invalid("all", "must be true or false"))
        }
        _ => Err(Error::invalid("ids", "is required, unless all is true")),
    }
}

fn ids_of(value: Value) -> Result<BTreeSet<Uuid>, Error> {
    let rule = format!("must be an array of 1 to {MAX_IDS} identifiers of jobs");
    let ids = match value {
        Value::Array(ids) if (1..=MAX_IDS).contains(&ids.len()) => ids,
        _ => return Err(Error::invalid("ids", rule)),
    };
    let ids: Option<BTreeSet<Uuid>> = ids.iter().map(|id| id.as_str()?.parse().ok()).collect();
    ids.ok_or_else(|| Error::invalid("ids", rule))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "0197f2a4-8c1e-7b54-9d7b-2f6f0a7f3c11";

    fn field_of<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
        match result {
            Err(Error::InvalidFields(faults)) => faults[0].field,
            other => panic!("{other:?}"),
        }
    }

    fn choice_of(body: Value) -> Result<Choice, Error> {
        match body {
            Value::Object(body) => choice(body).map(|(choice, _)| choice),
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn a_page_has_1_to_100_dead_letters_behind_those_to_skip() {
        for (query, expected) in [
            (None, (0, 100)),
            (Some(""), (0, 100)),
            (Some("limit=1"), (0, 1)),
            (Some("limit=100&skip=0"), (0, 100)),
            (Some("skip=1000000"), (1_000_000, 100)),
        ] {
            assert_eq!(page(query).unwrap(), expected, "{query:?}");
        }
        for (wrong, field) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=", "limit"),
            ("limit=x", "limit"),
            ("limit=1&limit=1", "limit"),
            ("skip=", "skip"),
            ("skip=-1", "skip"),
            ("skip=1000001", "skip"),
            ("limit=1&after=x", "query"),
        ] {
            assert_eq!(field_of(page(Some(wrong))), field, "{wrong}");
        }
    }

    #[test]
    fn a_choice_is_either_everything_or_a_list_of_identifiers() {
        let some = Choice::Ids(BTreeSet::from([ID.parse().unwrap()]));
        for (body, expected) in [
            (json!({"all": true}), &Choice::All),
            (json!({"all": true, "ids": null}), &Choice::All),
            (json!({"ids": [ID]}), &some),
            (json!({"ids": [ID, ID], "all": false, "more": 1}), &some),
            (json!({"ids": vec![ID; 100]}), &some),
        ] {
            assert_eq!(&choice_of(body).unwrap(), expected);
        }
        for (body, field) in [
            (json!({}), "ids"),
            (json!({"all": false}), "ids"),
            (json!({"ids": []}), "ids"),
            (json!({"ids": ID}), "ids"),
            (json!({"ids": [ID, 7]}), "ids"),
            (json!({"ids": ["m1"]}), "ids"),
            (json!({"ids": vec![ID; 101]}), "ids"),
            (json!({"all": "yes"}), "all"),
            (json!({"ids": [ID], "all": 1}), "all"),
            (json!({"ids": [ID], "all": true}), "all"),
            (json!({"all": true, "reason": ""}), "reason"),
        ] {
            assert_eq!(field_of(choice_of(body.clone())), field, "{body}");
        }
    }
}
