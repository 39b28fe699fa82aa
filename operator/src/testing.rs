//! Helpers for this crate's tests.

pub mod api_server;
pub mod broker;
pub mod stack;
pub mod world;

use serde::Serialize;

/// Compares the whole object with `operator/snapshots/<name>.snap`.
pub fn golden<T: Serialize>(name: &str, object: &T) {
    golden_text(name, &serde_yaml::to_string(object).unwrap());
}

/// Compares a text with `operator/snapshots/<name>.snap`.
pub fn golden_text(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
