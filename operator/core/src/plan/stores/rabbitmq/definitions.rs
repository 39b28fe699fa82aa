//! The definitions that the broker imports at every start: its user, the queues and their limits. They are part of
//! the Secret with the credentials, because they contain a hash of the password. Drift is corrected as for any child.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use sha2::{Digest, Sha256};

use crate::model::{
    credentials::{PASSWORD_KEY, USERNAME_KEY},
    stack::{ManagedStore, Queue, ValidatedStack},
    topology::{self, User},
};

/// Key of the definitions in the Secret, and their file name.
pub(super) const DEFINITIONS_KEY: &str = "definitions.json";

/// Returns the data of the Secret that holds the definitions, or `None` if the operator does not run a broker.
pub(super) fn secret_data(stack: &ValidatedStack) -> Option<BTreeMap<String, ByteString>> {
    let queue = stack.queue.as_ref()?;
    let definitions = definitions(queue, queue.store.managed()?);
    Some(BTreeMap::from([(
        DEFINITIONS_KEY.to_owned(),
        ByteString(definitions.into_bytes()),
    )]))
}

/// Returns the definitions of a managed broker.
fn definitions(queue: &Queue, broker: &ManagedStore) -> String {
    let entry = |key: &str| {
        let value: Option<&ByteString> = broker.credentials.data.get(key);
        value.map(|value| value.0.as_slice()).unwrap_or_default()
    };
    // A salt must differ between passwords but need not be secret. The checksum is keyed and differs between
    // passwords.
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(&broker.checksum));
    let user = User {
        name: &String::from_utf8_lossy(entry(USERNAME_KEY)),
        password: entry(PASSWORD_KEY),
        salt: [a, b, c, d],
    };
    topology::definitions(&user, queue.limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stack::minimal_stack;

    fn rendered(change: impl FnOnce(&mut Queue, &mut ManagedStore)) -> String {
        let mut queue = minimal_stack().queue().queue.unwrap();
        let mut broker = queue.store.managed().unwrap().clone();
        change(&mut queue, &mut broker);
        definitions(&queue, &broker)
    }

    #[test]
    fn definitions_follow_the_secret_and_the_limits_and_nothing_else() {
        let before = rendered(|_, _| ());
        assert_eq!(before, rendered(|_, _| ()));
        assert_eq!(before, rendered(|queue, _| queue.workers.replicas = 7));
        assert_ne!(before, rendered(|queue, _| queue.limits.deliveries = 7));
        assert_ne!(before, rendered(|queue, _| queue.limits.dead_letters = 7));
        let rotated = rendered(|_, broker| {
            broker.checksum = "checksum-of-another-password".to_owned();
            let data = &mut broker.credentials.data;
            data.insert(PASSWORD_KEY.to_owned(), ByteString(b"other".to_vec()));
        });
        assert_ne!(before, rotated);
        assert!(!before.contains("s3cret"));
    }
}
