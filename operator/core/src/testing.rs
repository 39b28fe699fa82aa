//! Helpers for this crate's tests.

pub mod admission;
pub mod live;
pub mod mutation;
pub mod shared;
pub mod stack;

use serde::Serialize;

pub use shared::golden_text;

/// Compares the whole object with `operator/core/snapshots/<name>.snap`.
pub fn golden<T: Serialize>(name: &str, object: &T) {
    golden_text(name, &serde_yaml::to_string(object).unwrap());
}
