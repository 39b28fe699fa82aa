//! Helpers for the tests of this crate and of `shortener-operator`, which includes this file.

use shortener_operator_core::api::{Profile, ShortenerStack};

/// Returns the resource `acme` in namespace `links` as the API server stores it.
pub fn stored_stack(spec: serde_json::Value) -> ShortenerStack {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "shortener.dev/v1alpha1",
        "kind": "ShortenerStack",
        "metadata": {
            "name": "acme",
            "namespace": "links",
            "uid": "5f0c2d1e-0000-4000-8000-000000000001",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }))
    .unwrap()
}

/// Returns every set of profiles, each in the order of the resource's documentation.
pub fn combinations() -> impl Iterator<Item = Vec<Profile>> {
    let chosen = |number: usize| -> Vec<Profile> {
        let all = Profile::ALL.into_iter().enumerate();
        let chosen = all.filter(|(place, _)| number >> place & 1 == 1);
        chosen.map(|(_, profile)| profile).collect()
    };
    (0..1 << Profile::ALL.len()).map(chosen)
}

/// Compares a text with `snapshots/<name>.snap` in the folder of the crate that is tested.
pub fn golden_text(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
