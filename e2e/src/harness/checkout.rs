//! Files of this checkout.

use std::path::{Path, PathBuf};

/// Returns a path relative to the folder of this crate.
pub fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
