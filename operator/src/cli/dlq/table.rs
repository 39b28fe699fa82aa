//! Dead letters as a table on the terminal.

use k8s_openapi::jiff::Timestamp;

use crate::rabbitmq::broker::message::Message;

/// Placeholder for an unknown value.
const NOTHING: &str = "-";

/// Renders one line for each dead letter below a header line.
pub fn of_letters(letters: &[Message]) -> String {
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

fn row(letter: &Message) -> [String; 5] {
    let died = letter
        .died_at()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    [
        letter.id().unwrap_or(NOTHING).to_owned(),
        letter
            .task()
            .map_or_else(|| NOTHING.to_owned(), |task| printable(&task)),
        letter.reason().unwrap_or(NOTHING).to_owned(),
        died.map_or_else(|| NOTHING.to_owned(), |died| died.to_string()),
        letter.payload_bytes.to_string(),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash_and_control_characters_do_not_reach_the_terminal() {
        let letters: Vec<Message> = serde_json::from_value(json!([
            {"payload": "AP8=", "payload_encoding": "base64", "payload_bytes": 2},
            {"payload": "{\"task\":\"\\u001b[2J\"}", "properties": {"message_id": "m1"}, "payload_bytes": 9},
        ]))
        .unwrap();
        assert_eq!(
            of_letters(&letters),
            "ID  TASK  REASON  DIED  BYTES\n\
             -   -     -       -     2\n\
             m1  ?[2J  -       -     9\n"
        );
    }
}
