//! The state of a Secret that the operator generates.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::model::{
    kinds::Deletion,
    metadata::StackIdentity,
    ownership::{Ownership, ownership},
};

/// A Secret that the operator generates.
#[derive(Clone)]
pub enum CredentialState {
    Existing(BTreeMap<String, ByteString>),
    /// It does not exist yet and is to be created with this data.
    Generated(BTreeMap<String, ByteString>),
    /// It is missing although the volume that needs it exists.
    Missing,
    /// It is still being deleted, so nothing may rely on it.
    Terminating,
    /// It is missing, and the volume that needed it is still being deleted.
    ClaimTerminating,
    /// An object outside the stack has its name.
    NotOwned,
    /// It is missing, and a volume claim outside the stack has the name of its volume.
    ClaimNotOwned,
}

impl CredentialState {
    /// Returns the state of a Secret that exists.
    pub fn of(secret: Secret, identity: &StackIdentity) -> Self {
        let meta = &secret.metadata;
        match ownership(meta, identity, Deletion::Retained) {
            Ownership::Foreign => Self::NotOwned,
            Ownership::Ours if meta.deletion_timestamp.is_none() => {
                Self::Existing(secret.data.unwrap_or_default())
            }
            Ownership::Ours | Ownership::Previous => Self::Terminating,
        }
    }

    /// Returns the state of a Secret that does not exist, while a volume claim with the name of its volume does.
    pub fn absent_beside(claim: &ObjectMeta, identity: &StackIdentity) -> Self {
        match ownership(claim, identity, Deletion::Retained) {
            Ownership::Foreign => Self::ClaimNotOwned,
            Ownership::Ours if claim.deletion_timestamp.is_none() => Self::Missing,
            Ownership::Ours | Ownership::Previous => Self::ClaimTerminating,
        }
    }
}

impl std::fmt::Debug for CredentialState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Existing(_) => "Existing",
            Self::Generated(_) => "Generated",
            Self::Missing => "Missing",
            Self::Terminating => "Terminating",
            Self::ClaimTerminating => "ClaimTerminating",
            Self::NotOwned => "NotOwned",
            Self::ClaimNotOwned => "ClaimNotOwned",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::{model::ownership::ABSENT_OWNER_UID, testing::shared::stored_stack};

    /// Returns the state of the Secret with this metadata, and that of a lost Secret beside a claim with this metadata.
    fn states(metadata: serde_json::Value) -> [String; 2] {
        let identity = StackIdentity::of(&stored_stack(json!({}))).unwrap();
        let metadata: ObjectMeta = from_value(metadata).unwrap();
        let beside = CredentialState::absent_beside(&metadata, &identity);
        let secret = Secret {
            metadata,
            ..Secret::default()
        };
        [CredentialState::of(secret, &identity), beside].map(|state| format!("{state:?}"))
    }

    #[test]
    fn what_is_being_deleted_does_not_count_as_live() {
        let labels = json!({"app.kubernetes.io/instance": "acme"});
        assert_eq!(
            states(json!({"labels": labels.clone()})),
            ["Existing", "Missing"]
        );
        let going = ["Terminating", "ClaimTerminating"];
        let since = "2026-01-01T00:00:00Z";
        assert_eq!(
            states(json!({"labels": labels.clone(), "deletionTimestamp": since})),
            going
        );
        let owner = |kind: &str, uid: &str, controller: bool| {
            json!({"labels": labels.clone(), "ownerReferences": [{
                "apiVersion": "v1", "kind": kind, "name": "acme", "uid": uid, "controller": controller,
            }]})
        };
        assert_eq!(states(owner("ShortenerStack", "of-before", true)), going);
        assert_eq!(states(owner("StatefulSet", ABSENT_OWNER_UID, false)), going);
        let foreign = ["NotOwned", "ClaimNotOwned"];
        assert_eq!(states(owner("ExternalSecret", "theirs", true)), foreign);
        assert_eq!(states(json!({})), foreign);
    }
}
