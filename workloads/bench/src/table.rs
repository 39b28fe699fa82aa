//! The results as Markdown tables.

use crate::{
    losses,
    sample::{Row, Sample, Spread},
};

/// Returns the table of the contenders with these names beside their yardsticks, and the list of their settings. Rows that are
/// not valid are marked.
#[must_use]
pub fn of(rows: &[Row], names: &[&str]) -> String {
    let mut table = String::from(
        "| contender | µs of CPU per request: median (least to greatest) | rounds | requests per second | by CPU |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    let shown = || names.iter().filter_map(|name| found(rows, name));
    for row in shown() {
        let (cost, rounds) = (row.spread(Sample::cost).show(1), row.samples.len());
        let parts = parts(row);
        let rate = row.spread(Sample::rate).median;
        let compared = compared(rows, row).map_or_else(String::new, |spread| spread.show(2));
        let mark = if losses::is_valid(row) {
            ""
        } else {
            " (**not valid**)"
        };
        table.push_str(&format!(
            "| {}{mark} | {cost}{parts} | {rounds} | {rate:.0} | {compared} |\n",
            row.name
        ));
    }
    table.push('\n');
    for row in shown() {
        table.push_str(&format!("- {}: {}\n", row.name, row.settings));
    }
    table
}

/// Returns the row with this name.
#[must_use]
pub fn found<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name == name)
}

/// Returns the costs of the servers apart, if there are several.
fn parts(row: &Row) -> String {
    if row.servers() < 2 {
        return String::new();
    }
    let parts = (0..row.servers()).map(|server| row.spread(|sample| sample.cost_of(server)));
    let parts: Vec<String> = parts.map(|part| format!("{:.1}", part.median)).collect();
    format!(", which is {}", parts.join(" + "))
}

/// Returns a row relative to its yardstick, if that is among the rows.
#[must_use]
pub fn compared(rows: &[Row], row: &Row) -> Option<Spread> {
    found(rows, row.yardstick).map(|yardstick| row.compared(yardstick))
}

/// Returns the aims as a sentence.
#[must_use]
pub fn aims(aims: &[(&str, f64)]) -> String {
    let aims = aims.iter().map(|(name, aim)| format!("{name} {aim:.2}"));
    let aims: Vec<String> = aims.collect();
    format!("The aims, by CPU: {}.", aims.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::testing::{losing, row};

    #[test]
    fn each_row_shows_its_spread_its_rounds_its_rate_and_its_yardstick() {
        let rows = [
            row("nginx", "nginx", &[6, 5, 9]),
            row("app", "nginx", &[12, 10, 18]),
            row("other", "absent", &[1, 1, 1]),
        ];
        let table = of(&rows, &["app", "other", "unknown"]);
        for line in [
            "| app | 12.0 (10.0 to 18.0) | 3 | 10000 | 0.50 (0.50 to 0.50) |",
            "| other | 1.0 (1.0 to 1.0) | 3 | 10000 |  |",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}\n{table}");
        }
        assert!(!table.contains("| nginx |"), "{table}");
    }

    #[test]
    fn a_row_that_is_not_valid_is_marked() {
        let of_app = |lost| of(&[losing(row("app", "app", &[1, 1]), lost)], &["app"]);
        assert!(of_app(10).contains("\n| app | "));
        assert!(of_app(11).contains("\n| app (**not valid**) | "));
    }

    #[test]
    fn servers_on_the_way_are_shown_apart_and_added_up() {
        let (gateway, app) = (row("way", "way", &[9]), row("app", "app", &[18]));
        let mut way = gateway.clone();
        way.samples[0] = gateway.samples[0].then(&app.samples[0]);
        let table = of(&[way], &["way"]);
        let expected = "| 27.0 (27.0 to 27.0), which is 9.0 + 18.0 |";
        assert!(table.contains(expected), "{table}");
    }
}
