//! The parsers of the query of a list and of a retry.

use serde_json::{Map, Value};

use super::{
    super::{page_size, parameters, plain_text, reason as reason_of, text},
    bodies::RetryRequest,
};
use crate::{
    body,
    error::Error,
    faults::Faults,
    store::webhooks::deliveries::{DeliveryQuery, DeliveryState},
};

/// The number of a delivery that is never reached: the first one of 19 digits.
const END: i64 = 1_000_000_000_000_000_000;

/// Parses the query of a list.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid parameter.
pub(super) fn query(query: Option<&str>) -> Result<DeliveryQuery, Error> {
    let mut faults = Faults::default();
    let names = ["receiver", "state", "limit", "cursor"];
    let [receiver, state, limit, cursor] = parameters(query, names, &mut faults);
    let state = state.and_then(|word| {
        let mut known = DeliveryState::ALL.into_iter();
        let found = known.find(|(name, _)| *name == word);
        let rule = "must be pending, failing or given_up";
        found.map_or_else(|| faults.add("state", rule), |(_, state)| Some(state))
    });
    let cursor = cursor.and_then(|cursor| {
        let number = cursor.parse().ok();
        let is_next = |number: &i64| (1..END).contains(number) && number.to_string() == cursor;
        let number = number.filter(is_next);
        number.or_else(|| faults.add("cursor", "must be the next of the page before"))
    });
    let receiver = receiver.as_deref().map(plain_text).transpose();
    let query = DeliveryQuery {
        receiver: faults.value("receiver", receiver),
        state,
        cursor,
        limit: page_size(limit, &mut faults),
    };
    faults.end(query)
}

/// Parses a retry. Returns the receiver with the reason.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub(super) fn retry(body: Map<String, Value>) -> Result<(String, Option<String>), Error> {
    let RetryRequest { receiver, reason } = body::fields(body)?;
    let mut faults = Faults::default();
    let receiver = receiver.ok_or_else(|| "is required".to_owned());
    let receiver = faults.value("receiver", receiver.and_then(text));
    let reason = reason_of(reason, &mut faults);
    faults.end((receiver, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_chosen_by_receiver_and_state() {
        let all = query(None).unwrap();
        assert_eq!((all.limit, all.state), (100, None));
        let some = query(Some("receiver=crm&state=given_up&limit=7&cursor=9")).unwrap();
        assert_eq!(some.receiver.as_deref(), Some("crm"));
        assert_eq!(some.state, Some(DeliveryState::GivenUp));
        assert_eq!((some.limit, some.cursor), (7, Some(9)));
    }

    #[test]
    fn every_invalid_parameter_is_named() {
        for (text, expected) in [
            ("state=done&limit=0", &["limit", "state"][..]),
            ("receiver=&cursor=01", &["cursor", "receiver"]),
            ("cursor=1000000000000000000", &["cursor"]),
            ("after=1", &["query"]),
        ] {
            let Err(Error::InvalidFields(faults)) = query(Some(text)) else {
                panic!("{text}");
            };
            let mut fields: Vec<&str> = faults.iter().map(|fault| fault.field).collect();
            fields.sort_unstable();
            assert_eq!(fields, expected, "{text}");
        }
    }
}
