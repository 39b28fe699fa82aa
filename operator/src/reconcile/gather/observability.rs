//! Facts about the export of traces and logs: the user's Secret with the headers for the backend.

use shortener_operator_core::{
    api::ShortenerStackSpec,
    model::{facts::HeaderFacts, metadata::StackIdentity},
    plan::references,
};

use super::read_secret;
use crate::reconcile::context::Scope;

/// Reads the headers.
pub(super) async fn headers(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
) -> Result<Option<HeaderFacts>, kube::Error> {
    let Some(name) = references::headers_secret(spec) else {
        return Ok(None);
    };
    let secret = read_secret(scope, identity, name).await?;
    Ok(Some(HeaderFacts {
        secret: name.to_owned(),
        data: secret.map(|secret| secret.data.unwrap_or_default()),
    }))
}
