//! The definitions that the broker imports at every start: its users, the queues and their limits. They are part of the
//! Secret with the credentials, because they contain hashes of the passwords. Drift is corrected as for any child.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use crate::model::{
    credentials::{DEFINITIONS_KEY, OPERATOR_PASSWORD_KEY, OPERATOR_USERNAME_KEY},
    stack::{Queue, ValidatedStack},
    topology,
};

/// Returns the data of the Secret that the operator renders, or `None` if it does not run a broker: the definitions, and
/// its own user as the Secret has it already, or is to have it. One write holds both, so they always agree.
pub(super) fn secret_data(stack: &ValidatedStack) -> Option<BTreeMap<String, ByteString>> {
    let queue = stack.queue.as_ref()?;
    let operator = queue.operator.as_ref()?;
    let text = |text: String| ByteString(text.into_bytes());
    Some(BTreeMap::from([
        (DEFINITIONS_KEY.to_owned(), text(definitions(queue)?)),
        (
            OPERATOR_USERNAME_KEY.to_owned(),
            text(operator.username.clone()),
        ),
        (OPERATOR_PASSWORD_KEY.to_owned(), operator.password.clone()),
    ]))
}

/// Returns the definitions of a managed broker.
fn definitions(queue: &Queue) -> Option<String> {
    Some(topology::definitions(&queue.users()?, queue.limits))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        model::{credentials::PASSWORD_KEY, stack::Store},
        testing::stack::minimal_stack,
    };

    fn rendered(change: impl FnOnce(&mut Queue)) -> String {
        let mut queue = minimal_stack().queue().queue.unwrap();
        change(&mut queue);
        definitions(&queue).unwrap()
    }

    fn other_password(queue: &mut Queue) {
        let Store::Managed(broker) = &mut queue.store else {
            panic!("the broker is external");
        };
        broker.checksum = "checksum-of-another-password".to_owned();
        let data = &mut broker.credentials.data;
        data.insert(PASSWORD_KEY.to_owned(), ByteString(b"other".to_vec()));
    }

    fn other_password_of_the_operator(queue: &mut Queue) {
        let operator = queue.operator.as_mut().unwrap();
        operator.password = ByteString(b"other".to_vec());
        operator.checksum = "checksum-of-another-password".to_owned();
    }

    #[test]
    fn definitions_follow_the_secret_and_the_limits_and_nothing_else() {
        let before = rendered(|_| ());
        assert_eq!(before, rendered(|_| ()));
        assert_eq!(before, rendered(|queue| queue.workers.replicas = 7));
        assert_ne!(before, rendered(|queue| queue.limits.deliveries = 7));
        assert_ne!(before, rendered(|queue| queue.limits.dead_letters = 7));
        assert_ne!(before, rendered(other_password));
        assert_ne!(before, rendered(other_password_of_the_operator));
        assert!(!before.contains("s3cret"));
    }

    #[test]
    fn programs_and_operator_have_users_with_passwords_of_their_own() {
        let hashes = |definitions: String| {
            let definitions: Value = serde_json::from_str(&definitions).unwrap();
            let of = |user: usize| definitions["users"][user]["password_hash"].clone();
            [of(0), of(1)]
        };
        let [programs, operator] = hashes(rendered(|_| ()));
        assert_ne!(programs, operator);
        let [rotated, same] = hashes(rendered(other_password));
        assert!(rotated != programs && same == operator);
        let [same, rotated] = hashes(rendered(other_password_of_the_operator));
        assert!(rotated != operator && same == programs);
    }

    #[test]
    fn the_secret_gets_the_operators_user_beside_the_definitions() {
        let stack = minimal_stack().queue();
        let data = secret_data(&stack).unwrap();
        let operator = stack.queue.unwrap().operator.unwrap();
        assert_eq!(data[OPERATOR_USERNAME_KEY].0, b"shortener-operator");
        assert_eq!(data[OPERATOR_PASSWORD_KEY], operator.password);
        assert_eq!(secret_data(&minimal_stack().external_queue()), None);
    }
}
