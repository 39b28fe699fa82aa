//! The parsers of bodies. Each reports every fault at once.

use serde_json::{Map, Value};

use super::{
    super::{reason as reason_of, text},
    bodies::{EraseRequest, TransferRequest},
};
use crate::{
    auth::{is_client, is_person},
    body,
    code::Code,
    error::Error,
    faults::Faults,
    store::management::{Handover, MAX_HANDOVER, PSEUDONYM, ownership::ACTOR},
};

/// The beginnings of names that are no clients.
const SYSTEM: [&str; 3] = ["pod/", ACTOR, PSEUDONYM];

/// Parses a transfer. Returns it with its reason.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub(super) fn transfer(body: Map<String, Value>) -> Result<(Handover, Option<String>), Error> {
    let request: TransferRequest = body::fields(body)?;
    let mut faults = Faults::default();
    let from = faults.value("from", required(request.from));
    let to = required(request.to).and_then(|to| match is_client(&to) || is_person(&to) {
        true if to == from => Err("must be another client than from".to_owned()),
        true => Ok(to),
        false => Err(
            "must be 1 to 64 of the characters A-Z, a-z, 0-9, '_' and '-', or user/ and the name of a person"
                .to_owned(),
        ),
    });
    let handover = Handover {
        to: faults.value("to", to),
        codes: faults.value("codes", request.codes.map(codes).transpose()),
        from,
    };
    let reason = reason_of(request.reason, &mut faults);
    faults.end((handover, reason))
}

/// Parses an erasure. Returns the name with the reason.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub(super) fn erasure(body: Map<String, Value>) -> Result<(String, Option<String>), Error> {
    let request: EraseRequest = body::fields(body)?;
    let mut faults = Faults::default();
    let client = required(request.client).and_then(|name| {
        match SYSTEM.iter().find(|start| name.starts_with(**start)) {
            Some(start) => Err(format!("must not begin with {start}: that is no client")),
            None => Ok(name),
        }
    });
    let client = faults.value("client", client);
    let reason = reason_of(request.reason, &mut faults);
    faults.end((client, reason))
}

fn required(value: Option<Value>) -> Result<String, String> {
    value.ok_or_else(|| "is required".to_owned()).and_then(text)
}

fn codes(value: Value) -> Result<Vec<String>, String> {
    let rule = || format!("must be an array of 1 to {MAX_HANDOVER} codes");
    let Value::Array(codes) = value else {
        return Err(rule());
    };
    if !(1..=MAX_HANDOVER).contains(&codes.len()) {
        return Err(rule());
    }
    let code = |value: Value| match value {
        Value::String(code) if Code::parse(&code).is_ok() => Some(code),
        _ => None,
    };
    let codes: Option<Vec<String>> = codes.into_iter().map(code).collect();
    codes.ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    fn fields<T: std::fmt::Debug>(result: Result<T, Error>) -> Vec<&'static str> {
        match result {
            Err(Error::InvalidFields(faults)) => faults.iter().map(|fault| fault.field).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_transfer_has_two_clients_and_perhaps_codes() {
        for (body, codes) in [
            (json!({"from": "Jane Doe", "to": "shop"}), None),
            (
                json!({"from": "shortlink/a/b", "to": "shop", "codes": null}),
                None,
            ),
            (
                json!({"from": "user/bob@b.example", "to": "user/ann@a.example"}),
                None,
            ),
            (
                json!({"from": "a", "to": "shop", "codes": ["k7Qm2xB"], "reason": "left"}),
                Some(vec!["k7Qm2xB".to_owned()]),
            ),
        ] {
            let (handover, reason) = transfer(object(body.clone())).unwrap();
            assert_eq!(handover.codes, codes);
            assert_eq!(
                (json!(handover.from), json!(reason)),
                (body["from"].clone(), body["reason"].clone())
            );
        }
        for (body, expected) in [
            (json!({}), &["from", "to"][..]),
            (json!({"from": 1, "to": "a b"}), &["from", "to"]),
            (json!({"from": "a", "to": "shortlink/a/b"}), &["to"]),
            (json!({"from": "a", "to": "user/a,b"}), &["to"]),
            (json!({"from": "a", "to": "user/"}), &["to"]),
            (
                json!({"from": "a", "to": "a", "reason": 1}),
                &["to", "reason"],
            ),
            (json!({"from": "a", "to": "b", "codes": []}), &["codes"]),
            (
                json!({"from": "a", "to": "b", "codes": ["a b"]}),
                &["codes"],
            ),
            (
                json!({"from": "a", "to": "b", "codes": vec!["a1"; 1001]}),
                &["codes"],
            ),
        ] {
            assert_eq!(fields(transfer(object(body.clone()))), expected, "{body}");
        }
    }

    #[test]
    fn a_name_that_is_erased_is_that_of_a_client() {
        let erased = erasure(object(json!({"client": "Jane Doe", "reason": "asked"})));
        assert_eq!(
            erased.unwrap(),
            ("Jane Doe".to_owned(), Some("asked".to_owned()))
        );
        for client in [
            json!(null),
            json!(""),
            json!("pod/a"),
            json!("shortlink/a/b"),
            json!("erased/1"),
        ] {
            let body = object(json!({"client": client}));
            assert_eq!(fields(erasure(body)), ["client"], "{client}");
        }
    }
}
