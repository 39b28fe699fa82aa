//! The text of a page. Every text that is added is escaped; only this file writes markup.

use std::fmt::Write;

/// The style of every page, exactly as it stands between its tags.
pub const STYLE: &str = include_str!("style.css");

/// A page with a title, which is also its heading.
pub struct Html(String);

impl Html {
    /// Begins a page.
    pub fn titled(title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
            <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        ))
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn paragraph(self, text: &str) -> Self {
        self.line(format_args!("<p>{}</p>", escaped(text)))
    }

    /// Adds a list of names and values.
    #[must_use]
    pub fn list(self, rows: &[(&str, &str)]) -> Self {
        let rows = rows.iter();
        rows.fold(self.line(format_args!("<dl>")), |page, (name, value)| {
            let (name, value) = (escaped(name), escaped(value));
            page.line(format_args!("<dt>{name}</dt><dd>{value}</dd>"))
        })
        .line(format_args!("</dl>"))
    }

    /// Adds a link. The page that it leads to learns nothing of this one, and a search engine does not follow it.
    #[must_use]
    pub fn link(self, url: &str, text: &str) -> Self {
        let (url, text) = (escaped(url), escaped(text));
        self.line(format_args!(
            "<p><a rel=\"noreferrer nofollow\" href=\"{url}\">{text}</a></p>"
        ))
    }

    /// Ends the page.
    pub fn finished(self) -> String {
        self.line(format_args!("</main>\n</body>\n</html>")).0
    }

    fn line(mut self, line: std::fmt::Arguments<'_>) -> Self {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
        self
    }
}

/// Replaces the characters that have a meaning in HTML, in text and in values of attributes alike.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads escaped text as a browser does.
    fn read(text: &str) -> String {
        [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&#39;", "'"),
            ("&amp;", "&"),
        ]
        .into_iter()
        .fold(text.to_owned(), |text, (entity, character)| {
            text.replace(entity, character)
        })
    }

    proptest! {
        #[test]
        fn whatever_the_texts_they_are_text_and_nothing_else(text in "(?s:.){0,60}|[<>&\"';#a-z/ ]{0,60}") {
            let markup = |page: &str| page.matches(['<', '>', '"', '\'']).count();
            let page = |text: &str| {
                Html::titled(text)
                    .paragraph(text)
                    .list(&[(text, text)])
                    .link(text, text)
                    .finished()
            };
            prop_assert_eq!(markup(&page(&text)), markup(&page("x")));
            prop_assert_eq!(read(&escaped(&text)), text);
        }
    }
}
