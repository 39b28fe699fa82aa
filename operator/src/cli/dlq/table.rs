//! Dead letters as a table on the terminal.

use super::Letter;

/// Placeholder for an unknown value.
const NOTHING: &str = "-";

/// Renders one line for each dead letter below a header line.
pub(super) fn of_letters(letters: &[Letter]) -> String {
    let titles = ["ID", "TASK", "REASON", "DIED", "BYTES"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(titles)
        .chain(letters.iter().map(row))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            format!("{}\n", cells.join("  ").trim_end())
        })
        .collect()
}

fn row(letter: &Letter) -> [String; 5] {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| NOTHING.to_owned());
    [
        known(&letter.id),
        match letter.task.as_str() {
            "" => NOTHING.to_owned(),
            task => printable(task),
        },
        known(&letter.reason),
        known(&letter.died_at),
        letter.bytes.to_string(),
    ]
}

/// Returns the first 40 characters with control characters replaced: a client chose the name, so it must not reach
/// the terminal unchanged.
fn printable(task: &str) -> String {
    task.chars()
        .take(40)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
