//! The ladder: from bare hyper to the app with everything switched on, one part at a time, which shows the cost of
//! each part.

use crate::{
    lineup::{CACHED, NEAR, NEAR_BARE, NEAR_FREE, TRACED},
    sample::{Row, Sample},
    steps::LOWEST,
    table::found,
};

/// The steps from below: what each adds, and the contender that has all up to it.
const STEPS: [(&str, &str); 9] = [
    ("bare hyper, one redirect", LOWEST[0].0),
    (
        "+ the app's connections: threads, places, phases, time limits",
        LOWEST[1].0,
    ),
    ("+ routing", LOWEST[2].0),
    ("+ metrics", LOWEST[3].0),
    (
        "+ the rest of the app, the link from its own memory",
        NEAR_BARE,
    ),
    ("+ the log line", NEAR_FREE),
    ("+ the rate limits, counted in the cache", NEAR),
    ("+ the link from the cache instead", CACHED),
    ("+ the trace", TRACED),
];

/// Explains the order of the steps and what they are made of.
pub const NOTE: &str = "\
Each step is measured with all steps before it, and its cost is the difference in the same round. The first four are servers
of the benchmark with parts of the app, because the app has no setting that switches its routes or its metrics off; the others
are the app with its own settings. The rate limits come last of the parts that the app always has, because an app with links in
its memory also has a cache, in which the limits are counted.";

/// Returns the table of the steps.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| step | µs of CPU per request: median (least to greatest) | the step adds |\n| --- | --- | --- |\n",
    );
    let mut below: Option<&Row> = None;
    for (step, contender) in STEPS {
        let Some(row) = found(rows, contender) else {
            continue;
        };
        let added = below.map_or_else(String::new, |below| row.added(below).show(1));
        let cost = row.spread(Sample::cost).show(1);
        table.push_str(&format!("| {step} | {cost} | {added} |\n"));
        below = Some(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::testing::row;

    #[test]
    fn each_step_shows_what_it_adds_to_the_one_below_in_the_same_round() {
        let rows = [
            row(CACHED, CACHED, &[15, 30, 16]),
            row(STEPS[0].1, CACHED, &[5, 10, 5]),
            row(NEAR, CACHED, &[8, 16, 9]),
        ];
        let table = table(&rows);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| bare hyper, one redirect | 5.0 (5.0 to 10.0) |  |",
                "| + the rate limits, counted in the cache | 9.0 (8.0 to 16.0) | 4.0 (3.0 to 6.0) |",
                "| + the link from the cache instead | 16.0 (15.0 to 30.0) | 7.0 (7.0 to 14.0) |",
            ]
        );
    }
}
