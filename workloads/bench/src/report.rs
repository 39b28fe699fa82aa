//! The report of a run, which grows with what has been measured.

use std::fmt;

/// Paragraphs and tables in Markdown.
#[derive(Debug, Default)]
pub struct Report(String);

impl Report {
    /// Begins a section.
    pub fn title(&mut self, title: &str) {
        self.text(&format!("## {title}"));
    }

    /// Adds a paragraph, a list or a table; nothing if it is empty.
    pub fn text(&mut self, text: &str) {
        let text = text.trim_end();
        if !text.is_empty() {
            self.0.push_str(text);
            self.0.push_str("\n\n");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_apart_and_empty_ones_are_left_out() {
        let mut report = Report::default();
        report.title("One");
        report.text("| a |\n");
        report.text("");
        report.text("b");
        assert_eq!(report.to_string(), "## One\n\n| a |\n\nb\n\n");
    }
}
