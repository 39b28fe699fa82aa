//! YAML for people and tools; JSON is what travels.

use kube::CustomResourceExt;

use crate::api::ShortenerStack;

/// The CustomResourceDefinition of the operator, as `crds/shortenerstack.yaml` holds it.
///
/// # Errors
/// A value that YAML cannot express.
pub fn crd() -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(&ShortenerStack::crd())
}
