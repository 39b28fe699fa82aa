//! Tests of odd passwords: both programs that read one read the same, or the store is held.

use http::HeaderValue;
use shortener_common::config::given;

use super::*;
use crate::{model::credentials::OPERATOR_PASSWORD_KEY, plan::error::MAX_CREDENTIAL};

/// Every store that has a Secret, and the keys of that Secret.
const KEYS: [(Component, &[&str]); 5] = [
    (Component::Postgres, &["username", "password"]),
    (Component::Cache, &["password"]),
    (
        Component::Rabbitmq,
        &["username", "password", OPERATOR_PASSWORD_KEY],
    ),
    (Component::Qdrant, &["api-key"]),
    (Component::Telemetry, &["username", "password"]),
];

/// Returns the reason for which a store is held whose Secret has this value.
fn held(store: Component, key: &str, value: &[u8]) -> Option<StepFailure> {
    let stack = stored_stack(json!({
        "profiles": ["caching", "queue", "vector", "observability"],
        "observability": {"backend": {"managed": {}}},
    }));
    let mut facts = with_nothing(&stack);
    let its_facts = match store {
        Component::Postgres => &mut facts.database,
        _ => facts.optional.get_mut(&store).unwrap(),
    };
    let StoreFacts::Managed {
        credentials: CredentialState::Existing(data),
        ..
    } = its_facts
    else {
        panic!("{store:?}");
    };
    data.insert(key.to_owned(), ByteString(value.to_vec()));
    let validated = validate(&stack, facts, &defaults()).unwrap();
    // The collector is held with its backend.
    let store = match store {
        Component::Telemetry => Component::Otel,
        _ => store,
    };
    validated.held.get(&store).cloned()
}

/// Returns true when every program reads the same in a value: those that cut line breaks, those that normalise Unicode,
/// and those that put it into a header.
fn means_one_thing(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    given(&Some(text.to_owned())) == Some(text)
        && text.is_ascii()
        && text.trim() == text
        && HeaderValue::from_str(text).is_ok_and(|header| header.to_str().is_ok())
        && !text.contains('\t')
}

#[test]
fn a_password_means_the_same_to_every_program_or_holds_its_store() {
    let mut odd: Vec<Vec<u8>> = (0..=u8::MAX)
        .flat_map(|byte| {
            [
                vec![byte],
                vec![byte, b'p'],
                vec![b'p', byte, b'p'],
                vec![b'p', byte],
            ]
        })
        .collect();
    let texts = [
        "p@ %/'\"\\:#?&+=$(x)${x}`",
        "päss",
        "\u{ad}p",
        "\u{a0}p",
        "p\r\n",
        "\u{1f512}",
    ];
    odd.extend(texts.map(|text| text.as_bytes().to_vec()));
    odd.extend([0, 1].map(|more| vec![b'p'; MAX_CREDENTIAL + more]));
    for value in odd {
        for (store, keys) in [KEYS[0], KEYS[3]] {
            let usable = means_one_thing(&value) && value.len() <= MAX_CREDENTIAL;
            assert_eq!(
                held(store, keys[0], &value).is_none(),
                usable,
                "{store:?} {value:?}"
            );
        }
    }
}

#[test]
fn each_key_of_each_store_is_checked_and_the_message_shows_no_value() {
    for (store, keys) in KEYS {
        for key in keys {
            assert_eq!(held(store, key, b"p@ %/'\"\\"), None, "{store:?} {key}");
            let failure = held(store, key, b"s3cret\n").unwrap();
            assert_eq!(failure.reason, "CredentialsUnusable", "{store:?} {key}");
            let start = format!(
                "Secret acme-{}: the value of key {key} must",
                store.as_str()
            );
            assert!(failure.message.starts_with(&start), "{}", failure.message);
            assert!(!failure.message.contains("s3cret") && !failure.needs_an_edit);
        }
    }
}
