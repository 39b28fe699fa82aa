//! What an app left out in a round: what it dropped because nobody took it in time, the clicks that it had no room for, and
//! the links that its cache should have had. The cost of such a round is that of other work than its row names.

use anyhow::Result;

use crate::{app::Environment, contender::Contender, load, sample::Row};

/// The verdict on a row.
const NOT_VALID: &str = ". **This row is not valid**: it shows the cost of other work. Use fewer `--connections`, \
    `--zipf 1`, which follows fewer different links, or a machine with nothing else on it";

/// A series of the app. It exists from the first scrape on.
struct Series {
    name: &'static str,
    /// What it counts, for people.
    what: &'static str,
    /// Returns true if an app has it, and if all that it counts is a loss.
    counts: fn(&Contender, &Environment) -> bool,
}

const SERIES: [Series; 5] = [
    Series {
        name: "log_dropped_lines_total",
        what: "log lines dropped",
        counts: |_, _| true,
    },
    Series {
        name: r#"otel_dropped_total{signal="traces"}"#,
        what: "spans dropped",
        counts: |_, app| app.exports(),
    },
    Series {
        name: r#"otel_dropped_total{signal="logs"}"#,
        what: "log records for the collector dropped",
        counts: |_, app| app.exports(),
    },
    Series {
        name: r#"clicks_lost_total{reason="full"}"#,
        what: "clicks lost",
        counts: |_, app| app.counts_clicks(),
    },
    Series {
        name: r#"cache_requests_total{result="miss"}"#,
        what: "look-ups that the cache did not answer",
        counts: |contender, app| app.has_cache() && !contender.has_small_cache,
    },
];

/// What an app left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub what: &'static str,
    pub number: u64,
}

/// The values of the series at a moment; 0 for those that count no loss.
pub struct Counts([u64; SERIES.len()]);

impl Counts {
    /// Reads the counts of a contender.
    ///
    /// # Errors
    /// Fails if its app does not tell them.
    pub async fn of(contender: &Contender) -> Result<Self> {
        let mut counts = [0; SERIES.len()];
        if let (Some(server), Some(app)) = (contender.server_of_app(), &contender.app) {
            let metrics = load::metrics(server.address).await?;
            for (count, series) in counts.iter_mut().zip(&SERIES) {
                if (series.counts)(contender, app) {
                    *count = load::value(&metrics, series.name)?;
                }
            }
        }
        Ok(Self(counts))
    }

    /// Returns what was left out since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<Loss> {
        let counts = self.0.iter().zip(&before.0);
        let losses = SERIES
            .iter()
            .zip(counts)
            .map(|(series, (now, before))| Loss {
                what: series.what,
                number: now - before,
            });
        losses.filter(|loss| loss.number > 0).collect()
    }
}

/// Returns what the app of a row left out in all rounds together.
fn of(row: &Row) -> Vec<Loss> {
    let mut all: Vec<Loss> = Vec::new();
    for loss in row.samples.iter().flat_map(|sample| &sample.lost) {
        match all.iter_mut().find(|found| found.what == loss.what) {
            Some(found) => found.number += loss.number,
            None => all.push(loss.clone()),
        }
    }
    all
}

/// Returns true if an app left out no more than one thing of a kind for a hundred requests.
#[must_use]
pub fn is_valid(row: &Row) -> bool {
    let requests: usize = row.samples.iter().map(|sample| sample.requests).sum();
    let losses = of(row);
    losses
        .iter()
        .all(|loss| 100 * loss.number <= requests as u64)
}

/// Describes what the apps of these rows left out, and says which rows are not valid.
#[must_use]
pub fn note(rows: &[Row]) -> String {
    let mut list = String::new();
    for row in rows {
        let losses = of(row);
        let losses = losses.iter();
        let losses: Vec<String> = losses
            .map(|loss| format!("{} {}", loss.number, loss.what))
            .collect();
        if !losses.is_empty() {
            let verdict = if is_valid(row) { "" } else { NOT_VALID };
            list.push_str(&format!(
                "- {}: {}{verdict}.\n",
                row.name,
                losses.join(", ")
            ));
        }
    }
    match list.is_empty() {
        true => "No app dropped, lost or missed anything.".to_owned(),
        false => format!("What the apps dropped, lost or missed:\n\n{list}"),
    }
}

#[cfg(test)]
mod tests {
    use shortener_app::{
        clicks::ClickMetrics,
        metrics::{CacheMetrics, Metrics},
    };
    use shortener_common::{exposition::Format, telemetry::Dropped};

    use super::*;
    use crate::sample::testing::{losing, row};

    #[test]
    fn the_app_has_the_series_from_the_first_scrape_on() {
        let registry = &mut Metrics::default().registry;
        CacheMetrics::register(registry);
        ClickMetrics::register(registry);
        registry.register_collector(Box::new(Dropped::default()));
        let text = Format::Classic.encode(registry).unwrap();
        // Only a running log has the first one.
        for series in &SERIES[1..] {
            assert_eq!(load::value(&text, series.name).unwrap(), 0);
        }
    }

    #[test]
    fn only_what_has_increased_is_a_loss() {
        let (before, now) = (Counts([7, 1, 0, 0, 0]), Counts([7, 4, 0, 0, 2]));
        let losses = now.since(&before);
        let losses = losses.iter().map(|loss| (loss.number, loss.what));
        let expected = [
            (3, "spans dropped"),
            (2, "look-ups that the cache did not answer"),
        ];
        assert_eq!(losses.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_row_is_valid_while_one_of_a_hundred_is_left_out() {
        let rounds = || row("app", "nginx", &[10, 11]);
        for (each, expected) in [(0, true), (10, true), (11, false)] {
            assert_eq!(is_valid(&losing(rounds(), each)), expected, "{each}");
        }
    }

    #[test]
    fn a_note_adds_up_the_rounds_and_names_the_rows_that_are_not_valid() {
        let [nginx, app] = ["nginx", "app"].map(|name| row(name, "nginx", &[10, 11]));
        let note_of = |each| note(&[nginx.clone(), losing(app.clone(), each)]);
        assert_eq!(note_of(0), "No app dropped, lost or missed anything.");
        let title = "What the apps dropped, lost or missed:\n\n";
        assert_eq!(note_of(5), format!("{title}- app: 10 spans dropped.\n"));
        let not_valid = note_of(200);
        let begin = format!("{title}- app: 400 spans dropped. **This row is not valid**");
        assert!(not_valid.starts_with(&begin), "{not_valid}");
    }
}
