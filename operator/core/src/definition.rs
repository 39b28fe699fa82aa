//! The generated documents about the resource: its definition and its reference page.

mod reference;
mod unknown;

use kube_core::CustomResourceExt;

use crate::api::ShortenerStack;

pub use unknown::{missing_fields, unknown_fields};

/// Renders the CustomResourceDefinition in YAML, as `crds/shortenerstack.yaml` contains it.
///
/// # Errors
/// The definition has a value that YAML cannot express.
pub fn yaml() -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(&ShortenerStack::crd())
}

/// Renders the page `docs/reference.md` in Markdown.
pub fn markdown() -> String {
    reference::markdown(&ShortenerStack::crd())
}
