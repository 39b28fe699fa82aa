//! The optional parts of a stack.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An optional part of a stack. The base stack is always present.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(transform = crate::api::schema::with_values)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// A cache between the app and the database.
    Caching,
    /// A job queue with workers.
    Queue,
    /// A collector for traces and logs.
    Observability,
    /// A store that finds documents by their vectors.
    Vector,
}

impl Profile {
    /// Every profile, in the order of the resource's documentation.
    pub const ALL: [Self; 4] = [
        Self::Caching,
        Self::Queue,
        Self::Observability,
        Self::Vector,
    ];

    /// Returns the value as the resource spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caching => "caching",
            Self::Queue => "queue",
            Self::Observability => "observability",
            Self::Vector => "vector",
        }
    }
}
