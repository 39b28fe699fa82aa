//! The generated documents about the resources: their definitions and their reference page.

mod reference;
mod unknown;

use kube_core::CustomResourceExt;

use crate::api::{ShortLink, ShortenerDrill, ShortenerStack};

pub use unknown::{missing_drill_fields, missing_fields, missing_link_fields, unknown_fields};

/// Renders the CustomResourceDefinitions in YAML, each with the name of its file in `crds/`.
///
/// # Errors
/// A definition has a value that YAML cannot express.
pub fn yaml() -> Result<[(&'static str, String); 3], serde_yaml::Error> {
    Ok([
        (
            "shortenerstack.yaml",
            serde_yaml::to_string(&ShortenerStack::crd())?,
        ),
        ("shortlink.yaml", serde_yaml::to_string(&ShortLink::crd())?),
        (
            "shortenerdrill.yaml",
            serde_yaml::to_string(&ShortenerDrill::crd())?,
        ),
    ])
}

/// Renders the page `docs/reference.md` in Markdown.
pub fn markdown() -> String {
    reference::markdown(
        &ShortenerStack::crd(),
        &ShortLink::crd(),
        &ShortenerDrill::crd(),
    )
}
