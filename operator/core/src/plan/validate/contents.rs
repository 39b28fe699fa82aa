//! Checksums of the Secrets that pods read because the user's settings name them.

use std::collections::BTreeMap;

use super::held::HeldComponents;
use crate::{
    model::{checksum, facts::PodContents, failure::StepFailure, metadata::Component},
    plan::{error::ValidateError, stores::common::StoreContext},
};

/// Returns the checksum of each component whose pods read such a Secret. If one of them could not be read, the pods of the
/// component stay as they are.
pub(super) fn checksums(
    context: &StoreContext<'_>,
    contents: &BTreeMap<Component, Result<PodContents, StepFailure>>,
    held: &mut HeldComponents,
) -> BTreeMap<Component, String> {
    let known = contents.iter().filter_map(|(component, contents)| {
        let unread = |failure: &StepFailure| ValidateError::Unread(failure.clone());
        let contents = held.pods(*component, contents.as_ref().map_err(unread))?;
        Some((*component, checksum(context, contents)?))
    });
    known.collect()
}

/// Returns the checksum of a content, or the one that was applied before a part went missing. New pods do not start without
/// that part, which their status says, so nothing is gained by a restart of those that run.
fn checksum(context: &StoreContext<'_>, contents: &PodContents) -> Option<String> {
    if contents.missing {
        return contents.applied.clone();
    }
    Some(checksum::of_user(&context.checksum(&contents.entries)))
}
