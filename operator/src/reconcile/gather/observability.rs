//! Facts about the export of traces and logs: the user's Secret with the headers for the backend.

use shortener_operator_core::{
    api::ShortenerStackSpec,
    model::{
        facts::HeaderFacts,
        metadata::{StackIdentity, is_usable_by_stacks},
    },
    plan::references,
};

use super::{read_secret, unread};
use crate::reconcile::context::Scope;

pub(super) async fn headers(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
) -> Option<HeaderFacts> {
    let name = references::headers_secret(spec)?;
    let secret = read_secret(scope, identity, name).await;
    let found = secret.as_ref().ok().and_then(Option::as_ref);
    let usable = found.is_some_and(|secret| is_usable_by_stacks(&secret.metadata));
    let data = secret.map(|secret| secret.map(|secret| secret.data.unwrap_or_default()));
    Some(HeaderFacts {
        secret: name.to_owned(),
        data: data.map_err(|error| unread(&error)),
        usable,
    })
}
