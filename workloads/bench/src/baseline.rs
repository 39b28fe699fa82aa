//! The baseline: what an earlier commit has reached, in a file beside the code. Figures of two runs are compared by their
//! ratio to the yardstick of the same run, because every machine has another speed, and at another time too.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    footprint::Footprint,
    losses,
    machine::Machine,
    sample::{Row, Spread},
    table,
};

/// The least change of the allocations of a request that counts. Connections and background tasks allocate as well.
const ALLOCATIONS: f64 = 0.5;
/// The least number of rounds of a row that is compared. Two runs of the same program with two rounds each do not overlap in one
/// of three cases.
const ROUNDS: usize = 3;
/// The number of digits after the point that are kept, as a power of ten.
const DIGITS: f64 = 1000.0;

/// The results of a commit.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    commit: String,
    /// True if its app was compiled with its profile.
    profiled: bool,
    /// The machine on which it was measured.
    machine: Machine,
    /// The contenders by name.
    by_cpu: BTreeMap<String, Ratio>,
    /// Allocations for each request, by the name of the contender.
    allocations: BTreeMap<String, f64>,
}

/// A contender relative to its yardstick.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Ratio {
    yardstick: String,
    #[serde(flatten)]
    spread: Spread,
}

impl Ratio {
    /// Returns true if it has too few rounds for a comparison.
    fn is_of_few_rounds(&self) -> bool {
        (1..ROUNDS).contains(&self.spread.rounds)
    }
}

impl Baseline {
    /// Returns what a run on this machine has shown. Rows that are not valid are left out, and their allocations, too: the app
    /// that counts those does the same work.
    #[must_use]
    pub fn of(commit: &str, profiled: bool, rows: &[Row], footprints: &[Footprint]) -> Self {
        let (valid, not_valid): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| losses::is_valid(row));
        let compared = valid.into_iter().filter(|row| row.name != row.yardstick);
        let by_cpu = compared.filter_map(|row| {
            let spread = table::compared(rows, row)?.map(rounded);
            let yardstick = row.yardstick.to_owned();
            // JSON has no other numbers.
            let is_number = spread.least.is_finite() && spread.greatest.is_finite();
            is_number.then(|| (row.name.to_owned(), Ratio { yardstick, spread }))
        });
        let is_valid = |name: &str| not_valid.iter().all(|row| row.name != name);
        let footprints = footprints.iter().filter(|found| is_valid(found.name));
        let allocations = footprints.filter_map(|footprint| {
            let allocations = rounded(footprint.allocations?);
            Some((footprint.name.to_owned(), allocations))
        });
        Self {
            commit: commit.to_owned(),
            profiled,
            machine: Machine::this(),
            by_cpu: by_cpu.collect(),
            allocations: allocations.collect(),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the file; `None` if there is none.
    fn read(path: &Path) -> Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let remedy = || {
            let path = path.display();
            format!(
                "{path} is not a baseline: remove it, and write it with `make bench ARGS=--save`"
            )
        };
        Ok(Some(serde_json::from_str(&text).with_context(remedy)?))
    }

    /// Describes what has moved since the baseline of this file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn compared(&self, path: &Path) -> Result<String> {
        let Some(before) = Self::read(path)? else {
            let path = path.display();
            return Ok(format!(
                "There is no baseline to compare with; `make bench ARGS=--save` writes {path}."
            ));
        };
        let mut text = format!("Compared with commit {}", before.commit);
        if before.profiled && !self.profiled {
            text.push_str(
                ", whose app was compiled with its profile, and costs less for that reason",
            );
        }
        if before.machine != self.machine {
            let other = "another machine, where ratios may differ as well";
            text.push_str(&format!(", measured on {other} ({})", before.machine));
        }
        text.push_str(":\n\n");
        let moved = self.moved_since(&before);
        if moved.is_empty() {
            text.push_str("- nothing has moved beyond the spread\n");
        }
        for line in moved {
            text.push_str(&format!("- {line}\n"));
        }
        Ok(text)
    }

    /// Returns what differs from an earlier run beyond the spread of both.
    fn moved_since(&self, before: &Self) -> Vec<String> {
        let mut moved = Vec::new();
        for (name, now) in &self.by_cpu {
            match before.by_cpu.get(name) {
                Some(before) if before.yardstick == now.yardstick => {
                    if [before, now].into_iter().any(Ratio::is_of_few_rounds) {
                        moved.push(format!("not compared: {name}, because it has few rounds"));
                        continue;
                    }
                    let verdict = verdict(&before.spread, &now.spread);
                    let (before, now) = (before.spread.show(2), now.spread.show(2));
                    moved.extend(verdict.map(|verdict| {
                        format!("{verdict}: {name}, {before} by CPU before, {now} now")
                    }));
                }
                _ => moved.push(format!("new: {name}, {} by CPU", now.spread.show(2))),
            }
        }
        let gone = before.by_cpu.keys();
        let gone = gone.filter(|name| !self.by_cpu.contains_key(*name));
        moved.extend(gone.map(|name| format!("no valid row now: {name}")));
        for (name, now) in &self.allocations {
            let before = before.allocations.get(name).copied();
            if let Some(before) = before.filter(|before| (before - now).abs() >= ALLOCATIONS) {
                let verdict = if *now < before { "better" } else { "worse" };
                moved.push(format!(
                    "{verdict}: {name}, {before} allocations before, {now} now"
                ));
            }
        }
        moved
    }
}

/// Returns the word for a ratio that has moved so far that no round of one run is among those of the other.
fn verdict(before: &Spread, now: &Spread) -> Option<&'static str> {
    if now.least > before.greatest {
        Some("better")
    } else if now.greatest < before.least {
        Some("worse")
    } else {
        None
    }
}

fn rounded(value: f64) -> f64 {
    (value * DIGITS).round() / DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::testing::{losing, row};

    fn run(app: &[u64], allocations: f64) -> Baseline {
        run_of(row("app", "nginx", app), allocations)
    }

    fn run_of(app: Row, allocations: f64) -> Baseline {
        let rows = [row("nginx", "nginx", &[5, 6, 5]), app];
        let footprint = Footprint {
            name: "app",
            instructions: None,
            cache_misses: None,
            allocations: Some(allocations),
            memory: None,
        };
        Baseline::of("abc", true, &rows, &[footprint])
    }

    #[test]
    fn only_what_is_beyond_the_spread_of_both_runs_has_moved() {
        let before = run(&[10, 11, 10], 57.0);
        for (app, expected) in [
            (&[10, 12, 11], None),
            (&[9, 11, 11], None),
            (
                &[8, 10, 9],
                Some("better: app, 0.50 (0.50 to 0.55) by CPU before, 0.60 (0.56 to 0.62) now"),
            ),
            (
                &[20, 24, 20],
                Some("worse: app, 0.50 (0.50 to 0.55) by CPU before, 0.25 (0.25 to 0.25) now"),
            ),
        ] {
            let moved = run(app, 57.4).moved_since(&before);
            assert_eq!(moved.first().map(String::as_str), expected, "{app:?}");
            assert!(moved.len() <= 1, "{moved:?}");
        }
    }

    #[test]
    fn few_rounds_have_not_moved() {
        let (few, enough) = (run(&[20, 20], 57.0), run(&[10, 11, 10], 57.0));
        for (now, before) in [(&few, &enough), (&enough, &few)] {
            let moved = now.moved_since(before);
            assert_eq!(moved, ["not compared: app, because it has few rounds"]);
        }
    }

    #[test]
    fn a_baseline_without_the_number_of_rounds_is_compared() {
        let now = run(&[20, 24, 20], 57.0);
        let mut before = run(&[10, 11, 10], 57.0);
        for ratio in before.by_cpu.values_mut() {
            ratio.spread.rounds = 0;
        }
        assert!(now.moved_since(&before)[0].starts_with("worse: app"));
    }

    #[test]
    fn allocations_are_the_same_on_every_machine_and_move_without_a_spread() {
        let before = run(&[10, 11, 10], 57.0);
        let moved = run(&[10, 11, 10], 42.0).moved_since(&before);
        assert_eq!(moved, ["better: app, 57 allocations before, 42 now"]);
    }

    #[test]
    fn contenders_that_came_or_went_are_named() {
        let with = run(&[10, 11, 10], 57.0);
        let without = Baseline::of("abc", true, &[], &[]);
        assert_eq!(without.moved_since(&with), ["no valid row now: app"]);
        let new = with.moved_since(&without);
        assert_eq!(new, ["new: app, 0.50 (0.50 to 0.55) by CPU"]);
    }

    #[test]
    fn a_row_that_is_not_valid_is_no_part_of_a_baseline() {
        let app = |lost| run_of(losing(row("app", "nginx", &[10, 11, 10]), lost), 57.0);
        assert_eq!(app(10), run(&[10, 11, 10], 57.0));
        assert_eq!(app(11), Baseline::of("abc", true, &[], &[]));
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written_and_compared_with_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let run = run(&[10, 11, 10], 57.0);
        assert!(run.compared(&path).unwrap().contains("ARGS=--save"));
        run.write(&path).unwrap();
        assert_eq!(Baseline::read(&path).unwrap().unwrap(), run);
        let text = run.compared(&path).unwrap();
        assert_eq!(
            text,
            "Compared with commit abc:\n\n- nothing has moved beyond the spread\n"
        );
        let unprofiled = Baseline {
            profiled: false,
            ..run
        };
        let text = unprofiled.compared(&path).unwrap();
        assert!(
            text.starts_with("Compared with commit abc, whose app was compiled with its profile")
        );
        fs::write(&path, "{}").unwrap();
        let error = unprofiled.compared(&path).unwrap_err().to_string();
        assert!(error.contains("remove it"), "{error}");
    }
}
