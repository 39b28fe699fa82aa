//! YAML output for users and tools; requests to the API server carry JSON.

use kube::CustomResourceExt;

use crate::api::ShortenerStack;

/// Renders the operator's CustomResourceDefinition, as `crds/shortenerstack.yaml` contains it.
///
/// # Errors
/// The definition has a value that YAML cannot express.
pub fn crd() -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(&ShortenerStack::crd())
}
