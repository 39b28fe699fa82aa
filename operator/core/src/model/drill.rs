//! The drill that takes a store of a stack away now.

use k8s_openapi::jiff::Timestamp;

use super::metadata::Component;

/// Annotation of an object that a drill has scaled to zero: the name of the drill.
pub const DRILL: &str = "shortener.dev/drill";

/// A drill whose end has not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveDrill {
    /// Name of the drill.
    pub name: String,
    /// The store that is away.
    pub store: Component,
    /// Time at which the store is given back.
    pub until: Timestamp,
}
