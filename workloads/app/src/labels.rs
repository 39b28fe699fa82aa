//! Rules for what people write about a link, and the words by which a title is found.

/// The maximum lengths in characters.
const TITLE: usize = 200;
const TAG: usize = 50;
const NOTE: usize = 1000;
/// The maximum number of tags of a link.
const TAGS: usize = 10;

/// Checks a title.
///
/// # Errors
/// Fails with the rule that it violates.
pub fn check_title(title: &str) -> Result<(), String> {
    match is_line(title, TITLE) {
        true => Ok(()),
        false => Err(format!(
            "must be 1 to {TITLE} characters without control characters"
        )),
    }
}

/// Checks the tags of a link.
///
/// # Errors
/// Fails with the rule that they violate.
pub fn check_tags(tags: &[String]) -> Result<(), String> {
    let is_tag = |tag: &String| is_line(tag, TAG) && *tag == tag.to_lowercase();
    let mut sorted: Vec<&String> = tags.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    match sorted.len() == tags.len() && tags.len() <= TAGS && tags.iter().all(is_tag) {
        true => Ok(()),
        false => Err(format!(
            "must be up to {TAGS} different tags of 1 to {TAG} characters, in lower case and without control characters"
        )),
    }
}

/// Checks a note.
///
/// # Errors
/// Fails with the rule that it violates.
pub fn check_note(note: &str) -> Result<(), String> {
    let is_plain = |sign: char| !sign.is_control() || matches!(sign, '\n' | '\r' | '\t');
    match (1..=NOTE).contains(&note.chars().count()) && note.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "must be 1 to {NOTE} characters without control characters other than line ends and tabs"
        )),
    }
}

/// Returns the words by which a title is found: in lower case and in order, each once.
#[must_use]
pub fn words(title: &str) -> Vec<String> {
    let title = title.to_lowercase();
    let words = title.split(|sign: char| !sign.is_alphanumeric());
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.sort_unstable();
    words.dedup();
    words.retain(|word| !word.is_empty());
    words
}

fn is_line(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}
