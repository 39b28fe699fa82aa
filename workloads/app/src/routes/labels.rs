//! The parsers of what people write about a link. Each fails with the rule that the value breaks.

use serde_json::Value;

/// The maximum number of characters of a title.
pub const MAX_TITLE: usize = 200;
/// The maximum number of characters of a tag.
const MAX_TAG: usize = 50;
/// The maximum number of tags of a link.
const MAX_TAGS: usize = 10;
/// The maximum number of characters of a note.
const MAX_NOTE: usize = 1000;

/// Parses a title.
///
/// # Errors
/// Fails if it is no text of one line, or too long.
pub fn title(value: Value) -> Result<String, String> {
    let is_bad = |sign: char| sign.is_control() || is_line_end(sign);
    let rule =
        || format!("must be one line of 1 to {MAX_TITLE} characters without control characters");
    text(value, MAX_TITLE, is_bad).ok_or_else(rule)
}

/// Parses a note.
///
/// # Errors
/// Fails if it is no text, if it is too long, or if it has control characters other than line breaks.
pub fn note(value: Value) -> Result<String, String> {
    let is_bad = |sign: char| sign.is_control() && !matches!(sign, '\n' | '\r');
    let rule = || {
        format!(
            "must be 1 to {MAX_NOTE} characters without control characters other than line breaks"
        )
    };
    text(value, MAX_NOTE, is_bad).ok_or_else(rule)
}

/// Parses tags. Returns them in lower case, in order, each once.
///
/// # Errors
/// Fails if it is no array of tags, or has too many.
pub fn tags(value: Value) -> Result<Vec<String>, String> {
    let Value::Array(values) = value else {
        return Err(format!("must be an array of at most {MAX_TAGS} tags"));
    };
    if values.len() > MAX_TAGS {
        return Err(format!("must have at most {MAX_TAGS} tags"));
    }
    let read = |value: Value| tag(value.as_str().unwrap_or_default());
    let mut tags: Vec<String> = values.into_iter().map(read).collect::<Result<_, _>>()?;
    tags.sort_unstable();
    tags.dedup();
    Ok(tags)
}

/// Parses a tag. Returns it in lower case, without white space around it.
///
/// # Errors
/// Fails if it is empty or too long, or has a comma or control characters.
pub fn tag(text: &str) -> Result<String, String> {
    let tag = text.trim().to_lowercase();
    let is_sound = !text.chars().any(|sign| sign == ',' || sign.is_control());
    if is_sound && (1..=MAX_TAG).contains(&tag.chars().count()) {
        return Ok(tag);
    }
    let rule = format!(
        "must have tags of 1 to {MAX_TAG} characters without commas and control characters"
    );
    Err(rule)
}

fn text(value: Value, longest: usize, is_bad: impl FnMut(char) -> bool) -> Option<String> {
    let Value::String(text) = value else {
        return None;
    };
    let is_sound = (1..=longest).contains(&text.chars().count()) && !text.contains(is_bad);
    is_sound.then_some(text)
}

/// Returns true for the two characters that end a line and are no control characters.
fn is_line_end(sign: char) -> bool {
    matches!(sign, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(title(json!(" Ä title, ")), Ok(" Ä title, ".to_owned()));
        assert!(title(json!("ü".repeat(200))).is_ok());
        for bad in [
            json!(""),
            json!("ü".repeat(201)),
            json!("a\nb"),
            json!("a\u{2028}b"),
            json!("a\0"),
            json!(7),
            json!(["a"]),
        ] {
            assert!(title(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_note_may_have_lines() {
        assert_eq!(note(json!("a\r\nb\n")), Ok("a\r\nb\n".to_owned()));
        assert!(note(json!("ü".repeat(1000))).is_ok());
        for bad in [
            json!(""),
            json!("ü".repeat(1001)),
            json!("a\tb"),
            json!("\u{1b}[1m"),
            json!("a\0"),
            json!({}),
        ] {
            assert!(note(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn tags_are_trimmed_in_lower_case_and_each_there_once() {
        let read = |value| tags(value).unwrap();
        assert_eq!(read(json!([])), Vec::<String>::new());
        assert_eq!(
            read(json!(["Spring", " ÄPFEL ", "spring", "a b"])),
            ["a b", "spring", "äpfel"]
        );
        assert!(tags(json!([format!(" {} ", "ü".repeat(50))])).is_ok());
        assert!(tags(json!(vec!["a"; 10])).is_ok());
        for bad in [
            json!("a"),
            json!({}),
            json!([7]),
            json!([null]),
            json!([""]),
            json!(["  "]),
            json!(["a,b"]),
            json!(["a\n"]),
            json!(["a\0b"]),
            json!(["ü".repeat(51)]),
            json!(vec!["a"; 11]),
        ] {
            assert!(tags(bad.clone()).is_err(), "{bad}");
        }
    }
}
