//! The keys that the operator generates for the app.

use crate::{
    model::{
        credentials::{self, JOB_IDS_KEY, MANAGEMENT_KEY},
        facts::CredentialState,
        stack::OwnKey,
    },
    plan::{
        error::ValidateError,
        stores::common::{StoreContext, credential},
    },
};

/// The keys of the app.
pub(super) struct OwnKeys {
    pub job_ids: OwnKey,
    pub management: OwnKey,
}

impl OwnKeys {
    /// Returns the keys of a stack from their Secrets.
    ///
    /// # Errors
    /// A Secret lacks its key, or is being deleted.
    pub(super) fn of(
        context: &StoreContext<'_>,
        job_ids: CredentialState,
        management: CredentialState,
    ) -> Result<Self, ValidateError> {
        let stack = context.stack.metadata.name.as_deref().unwrap_or_default();
        let key = |state, secret: String, keys: &'static [&'static str]| {
            let key = credential(state, &secret, stack, keys)?;
            Ok(OwnKey {
                checksum: context.checksum(&key.data),
                key,
            })
        };
        Ok(Self {
            job_ids: key(job_ids, credentials::job_ids_name(stack), &[JOB_IDS_KEY])?,
            management: key(
                management,
                credentials::management_name(stack),
                &[MANAGEMENT_KEY],
            )?,
        })
    }
}
