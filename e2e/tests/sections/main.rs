//! Counts the passed cluster tests by section of the specification, and fails when a section has none.
//!
//! A test file names its sections in a line `//! Specification: 3.1, 2.2.`, and a test of other sections than its
//! file has a line `/// Specification: 7.` of its own. The logs say which tests passed:
//!
//! ```sh
//! E2E_LOGS=<log of cargo test>:<log of cargo test> cargo test -p shortener-e2e --test sections -- --show-output
//! ```

mod named;
mod tally;

use std::fs;

use anyhow::{Context, Result, ensure};
use shortener_e2e::checkout;

use crate::{
    named::Named,
    tally::{Section, Tally, passed_tests},
};

/// The sections that a running stack can be tested for. The specification's first section is an overview of the
/// others. Of section 5, viewers and administrator of the dashboards need the image of the managed backend: only its
/// objects are tested.
const SECTIONS: [Section; 18] = [
    ("2.1", "short link"),
    ("2.2", "cache entry"),
    ("2.3", "job message"),
    ("2.4", "responses"),
    ("2.5", "queue statistics"),
    ("2.6", "vector collection and point"),
    ("2.7", "telemetry records"),
    ("3.1", "states of a cache entry"),
    ("3.2", "states of a job"),
    ("4.1", "gateway routes"),
    ("4.2", "headers set by the gateway"),
    ("4.3", "application routes"),
    ("4.4", "vector database"),
    ("4.5", "behavioral rules"),
    ("5", "authentication"),
    ("6", "events"),
    ("7", "errors"),
    ("8", "limits"),
];

#[test]
fn every_section_of_the_specification_has_a_passed_test() -> Result<()> {
    let logs = std::env::var_os("E2E_LOGS").context(
        "E2E_LOGS is not set: give it the logs of the cluster tests, separated by colons",
    )?;
    let mut named = Named::default();
    for target in ["cluster", "serial", "outage"] {
        named.read_folder(&checkout("tests").join(target))?;
    }
    let mut passed = Vec::new();
    for log in std::env::split_paths(&logs) {
        let read = || passed_tests(&fs::read_to_string(&log)?);
        passed.extend(read().with_context(|| format!("log {}", log.display()))?);
    }
    let tally = Tally::new(&SECTIONS, &named, &passed);
    println!("{}", tally.table);
    let errors = &tally.errors;
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(())
}
