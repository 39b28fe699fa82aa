//! Facts about the Secrets that pods read because the user's settings name them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;

use crate::model::{failure::StepFailure, pod_uses::SecretUse};

/// Secrets by name. `None` is one that does not exist, and a failure one that could not be read.
pub type ReadSecrets = BTreeMap<String, Result<Option<ReadSecret>, StepFailure>>;

/// A Secret that was read.
#[derive(Clone, Default)]
pub struct ReadSecret {
    pub data: BTreeMap<String, ByteString>,
    /// True when its label admits it.
    pub usable: bool,
}

/// The content of the Secrets that the pods of a component read because the user's settings name them.
#[derive(Clone, Default)]
pub struct PodContents {
    /// The values that exist, by Secret and key.
    pub entries: BTreeMap<String, ByteString>,
    /// True when a Secret or a key is missing without which the pods do not start.
    pub missing: bool,
    /// The checksum of the content in the live pod template, if that has one. It counts only if something is missing.
    pub applied: Option<String>,
    /// The Secrets that exist and have the label that admits them.
    pub usable: BTreeSet<String>,
}

impl PodContents {
    /// Finds the content that pods read in the data of Secrets.
    ///
    /// # Errors
    /// One of the Secrets could not be read.
    pub fn find(uses: &BTreeSet<SecretUse>, secrets: &ReadSecrets) -> Result<Self, StepFailure> {
        let mut found = Self::default();
        for used in uses {
            let secret = match secrets.get(&used.secret) {
                Some(Ok(secret)) => secret.as_ref(),
                Some(Err(failure)) => return Err(failure.clone()),
                None => None,
            };
            if secret.is_some_and(|secret| secret.usable) {
                found.usable.insert(used.secret.clone());
            }
            let data = secret.map(|secret| &secret.data);
            let is_read = |key: &str| used.key.as_deref().is_none_or(|wanted| wanted == key);
            let exists = data.is_some_and(|data| {
                let key = used.key.as_ref();
                key.is_none_or(|key| data.contains_key(key))
            });
            found.missing |= !exists && !used.optional;
            let entries = data.into_iter().flatten().filter(|(key, _)| is_read(key));
            // Neither of the two names can contain a slash.
            let entries =
                entries.map(|(key, value)| (format!("{}/{key}", used.secret), value.clone()));
            found.entries.extend(entries);
        }
        Ok(found)
    }

    /// Returns the content that is assumed of Secrets that nobody has read: all exist with the label that admits them.
    pub fn of_usable(uses: &BTreeSet<SecretUse>) -> Self {
        Self {
            usable: uses.iter().map(|used| used.secret.clone()).collect(),
            ..Self::default()
        }
    }
}

crate::debug_only!(PodContents: missing, usable);

#[cfg(test)]
mod tests {
    use super::*;

    fn used(secret: &str, key: Option<&str>, optional: bool) -> SecretUse {
        SecretUse {
            secret: secret.to_owned(),
            key: key.map(str::to_owned),
            optional,
        }
    }

    #[test]
    fn only_what_pods_read_counts_and_only_what_they_need_is_missed() {
        let data = ["a", "b"].map(|key| (key.to_owned(), ByteString(b"value".to_vec())));
        let secrets = ReadSecrets::from([
            ("full".to_owned(), Ok(Some(read(data.into(), true)))),
            ("gone".to_owned(), Ok(None)),
        ]);
        for (used, entries, missing) in [
            (used("full", Some("a"), false), &["full/a"][..], false),
            (used("full", None, false), &["full/a", "full/b"], false),
            (used("full", Some("c"), false), &[], true),
            (used("full", Some("c"), true), &[], false),
            (used("gone", None, false), &[], true),
            (used("gone", Some("a"), true), &[], false),
        ] {
            let found = PodContents::find(&[used.clone()].into(), &secrets).unwrap();
            let keys: Vec<&str> = found.entries.keys().map(String::as_str).collect();
            assert_eq!(
                (keys.as_slice(), found.missing),
                (entries, missing),
                "{used:?}"
            );
        }
    }

    fn read(data: BTreeMap<String, ByteString>, usable: bool) -> ReadSecret {
        ReadSecret { data, usable }
    }

    #[test]
    fn a_secret_is_usable_if_it_exists_and_has_the_label() {
        let secrets = ReadSecrets::from([
            ("labelled".to_owned(), Ok(Some(read([].into(), true)))),
            ("bare".to_owned(), Ok(Some(read([].into(), false)))),
            ("gone".to_owned(), Ok(None)),
        ]);
        let uses = ["labelled", "bare", "gone"].map(|name| used(name, None, true));
        let found = PodContents::find(&uses.into(), &secrets).unwrap();
        assert_eq!(found.usable, ["labelled".to_owned()].into());
    }

    #[test]
    fn a_secret_that_could_not_be_read_is_a_failure_of_the_pods_that_use_it() {
        let failure = StepFailure {
            reason: "ReadFailed",
            message: "no answer".to_owned(),
            needs_an_edit: false,
            waits: false,
        };
        let secrets = ReadSecrets::from([
            ("a".to_owned(), Err(failure.clone())),
            ("b".to_owned(), Ok(None)),
        ]);
        let found = |name: &str| PodContents::find(&[used(name, None, true)].into(), &secrets);
        assert_eq!(found("a").unwrap_err(), failure);
        assert!(found("b").is_ok());
    }
}
