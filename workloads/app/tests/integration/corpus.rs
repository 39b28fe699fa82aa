//! Replay of the fuzzing corpus, as a regression test.

use std::{fs, path::Path};

#[path = "../../fuzz/lines.rs"]
mod lines;
#[path = "../../fuzz/properties.rs"]
mod properties;

fn replay(target: &str, property: fn(&[u8])) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target)
        .with_extension("txt");
    let mut replayed = 0;
    for line in fs::read_to_string(&kept).unwrap().lines() {
        let input = lines::input(line);
        property(&input.unwrap_or_else(|| panic!("{}: not an input: {line}", kept.display())));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", kept.display());
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

#[test]
fn every_kept_destination_stays_the_same_with_a_query() {
    replay("location", properties::location);
}

#[test]
fn any_input_fits_on_a_line() {
    let every_byte: Vec<u8> = (0..=255).collect();
    for input in [
        &every_byte,
        &b""[..],
        b" ",
        br"\x41\",
        b"ends with a space ",
    ] {
        let line = lines::line(input);
        assert_eq!(line.lines().count(), usize::from(!input.is_empty()));
        assert_eq!(line.trim_end(), line);
        assert_eq!(lines::input(&line).as_deref(), Some(input));
    }
}

#[test]
fn a_line_of_another_form_is_no_input() {
    for line in [r"\", r"\n", r"\x4", r"\x4g", "\t", "ü"] {
        assert_eq!(lines::input(line), None, "{line}");
    }
}
