//! The results as Markdown tables.

use crate::sample::{Row, Sample, Spread};

/// Returns the table of contenders beside their yardsticks, and the list of their settings.
#[must_use]
pub fn of(rows: &[Row]) -> String {
    let mut table = String::from(
        "| contender | µs of CPU per request: median (least to greatest) | requests per second | by CPU |\n\
         | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let cost = row.spread(Sample::cost).show(1);
        let rate = row.spread(Sample::rate).median;
        let compared = compared(rows, row).map_or_else(String::new, |spread| spread.show(2));
        table.push_str(&format!(
            "| {} | {cost} | {rate:.0} | {compared} |\n",
            row.name
        ));
    }
    table.push('\n');
    for row in rows {
        table.push_str(&format!("- {}: {}\n", row.name, row.settings));
    }
    table
}

/// Returns a row relative to its yardstick, if that is among the rows.
#[must_use]
pub fn compared(rows: &[Row], row: &Row) -> Option<Spread> {
    let yardstick = rows.iter().find(|other| other.name == row.yardstick);
    yardstick.map(|yardstick| row.compared(yardstick))
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
    use crate::sample::testing::row;

    #[test]
    fn each_row_shows_its_spread_its_rate_and_its_yardstick() {
        let table = of(&[
            row("nginx", "nginx", &[6, 5, 9]),
            row("app", "nginx", &[12, 10, 18]),
            row("other", "absent", &[1, 1, 1]),
        ]);
        for line in [
            "| nginx | 6.0 (5.0 to 9.0) | 10000 | 1.00 (1.00 to 1.00) |",
            "| app | 12.0 (10.0 to 18.0) | 10000 | 0.50 (0.50 to 0.50) |",
            "| other | 1.0 (1.0 to 1.0) | 10000 |  |",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}\n{table}");
        }
    }
}
