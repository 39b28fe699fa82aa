//! Replay of the fuzzing corpus, as a regression test.

use std::{fs, path::Path};

#[path = "../../fuzz/properties.rs"]
mod properties;

fn replay(target: &str, property: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        property(&fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", directory.display());
}

#[test]
fn every_kept_body_of_a_request_is_answered_or_refused() {
    replay("shorten", properties::shorten);
}

#[test]
fn every_kept_code_is_safe_or_refused() {
    replay("code", properties::code);
}

#[test]
fn every_kept_header_is_read_without_being_believed() {
    replay("headers", properties::headers);
}
