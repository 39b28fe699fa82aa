//! The number of passed tests for each section.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::named::Named;

/// Number and title of a section.
pub type Section = (&'static str, &'static str);

/// The outcome of the count.
pub struct Tally {
    /// A title, and a line for each section.
    pub table: String,
    /// Sections without a test, and tests of unknown sections.
    pub errors: Vec<String>,
}

impl Tally {
    /// Counts the passed tests of each section.
    pub fn new(list: &[Section], named: &Named, passed: &[String]) -> Self {
        let mut errors = Vec::new();
        let mut counts = BTreeMap::<&str, usize>::new();
        let mut used = BTreeSet::new();
        let mut beside = 0;
        for test in passed {
            let Some((path, sections)) = sections_of(named, test) else {
                beside += 1;
                continue;
            };
            used.insert(path);
            for section in sections {
                if !list.iter().any(|(number, _)| number == section) {
                    errors.push(format!(
                        "{test} names section {section}, which the list in e2e/tests/sections/main.rs lacks"
                    ));
                }
                *counts.entry(section).or_default() += 1;
            }
        }
        let mut rows = Vec::new();
        for (number, title) in list {
            let count = counts.get(number).copied().unwrap_or_default();
            rows.push((format!("{number} {title}"), count));
            if count == 0 {
                errors.push(format!(
                    "no passed test names section {number} of the specification"
                ));
            }
        }
        rows.push(("about the operator and the cluster".to_owned(), beside));
        let unused = named.0.keys().filter(|path| !used.contains(path.as_str()));
        errors
            .extend(unused.map(|path| format!("{path} names sections, but no test of it passed")));
        Self {
            table: table(&rows),
            errors,
        }
    }
}

fn table(rows: &[(String, usize)]) -> String {
    let mut lines = vec![
        "Cluster tests by section of the specification (a test may be about several):".to_owned(),
    ];
    lines.extend(
        rows.iter()
            .map(|(row, count)| format!("{row:<44} {count:>4}")),
    );
    lines.join("\n")
}

/// Returns the sections that a test names itself, or else its module, with the path that names them. Modules between
/// a file and its test come from a macro.
fn sections_of<'a>(named: &'a Named, test: &str) -> Option<(&'a str, &'a [String])> {
    let (mut module, name) = test.rsplit_once("::")?;
    loop {
        let own = named.0.get_key_value(&format!("{module}::{name}"));
        if let Some((path, sections)) = own.or_else(|| named.0.get_key_value(module)) {
            return Some((path, sections));
        }
        (module, _) = module.rsplit_once("::")?;
    }
}

/// Returns the paths of the passed tests in the output of a test program.
pub fn passed_tests(log: &str) -> Result<Vec<String>> {
    let paths = log
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    let paths: Vec<_> = paths.map(str::to_owned).collect();
    let counts = log.lines().filter_map(|line| {
        let counts = line.strip_prefix("test result: ")?;
        let (before, _) = counts.split_once(" passed;")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    let passed: usize = counts.sum();
    ensure!(
        passed == paths.len(),
        "the test program counts {passed} passed tests, and {} lines name one",
        paths.len()
    );
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: [Section; 2] = [("2.1", "short link"), ("7", "errors")];

    fn tally(source: &str, passed: &[&str]) -> Tally {
        let mut named = Named::default();
        named.read_file("queue", source).unwrap();
        let passed: Vec<_> = passed.iter().map(|path| path.to_string()).collect();
        Tally::new(&LIST, &named, &passed)
    }

    #[test]
    fn a_test_counts_for_its_own_sections_or_else_for_those_of_its_file() {
        let source =
            "//! Specification: 7.\n/// Specification: 2.1, 7.\nfn own() {}\nfn other() {}";
        let tally = tally(
            source,
            &["queue::own", "queue::by_a_macro::other", "beside::third"],
        );
        assert_eq!(tally.errors, Vec::<String>::new());
        let lines = tally.table.lines().skip(1);
        let counts: Vec<_> = lines.filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(counts, ["1", "2", "1"]);
    }

    #[test]
    fn a_section_without_a_passed_test_is_an_error() {
        let tally = tally("//! Specification: 7.", &["queue::test"]);
        assert_eq!(
            tally.errors,
            ["no passed test names section 2.1 of the specification"]
        );
    }

    #[test]
    fn an_unknown_section_is_an_error() {
        let tally = tally("//! Specification: 2.1, 7, 9.", &["queue::test"]);
        assert_eq!(
            tally.errors,
            ["queue::test names section 9, which the list in e2e/tests/sections/main.rs lacks"]
        );
    }

    #[test]
    fn sections_of_a_test_that_did_not_pass_are_an_error() {
        let source = "//! Specification: 2.1, 7.\n/// Specification: 7.\nfn failed() {}";
        let tally = tally(source, &["queue::test"]);
        assert_eq!(
            tally.errors,
            ["queue::failed names sections, but no test of it passed"]
        );
    }

    #[test]
    fn a_log_that_lost_the_line_of_a_passed_test_is_refused() {
        let log = "test queue::a ... ok\ntest queue::b ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed;";
        assert_eq!(passed_tests(log).unwrap(), ["queue::a"]);
        let torn = log.replace("... ok", "... a warning");
        assert!(passed_tests(&torn).is_err());
    }
}
