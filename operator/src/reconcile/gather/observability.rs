//! Facts about the export of traces and logs: the user's Secret with the headers for the backend.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::read_secret;
use crate::{
    api::{Profile, ShortenerStackSpec},
    context::Scope,
    metadata::StackIdentity,
};

/// The headers for an external backend.
#[derive(Clone)]
pub struct HeaderFacts {
    /// The Secret.
    pub secret: String,
    /// Its data, if it exists.
    pub data: Option<BTreeMap<String, ByteString>>,
}

impl std::fmt::Debug for HeaderFacts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HeaderFacts")
            .field("secret", &self.secret)
            .field("exists", &self.data.is_some())
            .finish()
    }
}

/// Returns the name of the Secret with the headers, if the profile is on and the spec refers to one.
pub(super) fn headers_secret(spec: &ShortenerStackSpec) -> Option<&str> {
    let external = spec.observability.backend.external.as_ref()?;
    let reference = external.headers_secret_ref.as_ref()?;
    let used = spec.profiles.contains(&Profile::Observability);
    used.then_some(reference.name.as_str())
}

/// Reads the headers.
pub(super) async fn headers(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
) -> Result<Option<HeaderFacts>, kube::Error> {
    let Some(name) = headers_secret(spec) else {
        return Ok(None);
    };
    let secret = read_secret(scope, identity, name).await?;
    Ok(Some(HeaderFacts {
        secret: name.to_owned(),
        data: secret.map(|secret| secret.data.unwrap_or_default()),
    }))
}
