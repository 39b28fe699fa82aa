//! The mark of a link that was taken down.

use crate::store::Takedown;

/// The values of the mark, which are those of the response.
const DISABLED: &str = "410";
const LEGAL: &str = "451";
/// The maximum length of a notice in a mark, in bytes.
const MAX_NOTICE: usize = 4 * crate::store::MAX_TEXT;

/// Returns the mark of a link that is down.
pub(super) fn mark_of(takedown: &Takedown) -> String {
    match takedown {
        Takedown::Disabled => DISABLED.to_owned(),
        Takedown::Legal { notice: None } => LEGAL.to_owned(),
        Takedown::Legal {
            notice: Some(notice),
        } => format!("{LEGAL}\n{notice}"),
    }
}

/// Returns the takedown that a mark stands for, or `None` for a negative entry.
pub(super) fn takedown_in(value: &[u8]) -> Option<Takedown> {
    if value.starts_with(DISABLED.as_bytes()) {
        return Some(Takedown::Disabled);
    }
    let rest = value.strip_prefix(LEGAL.as_bytes())?;
    let notice = rest.strip_prefix(b"\n").and_then(|text| {
        let text = str::from_utf8(text).ok()?;
        (text.len() <= MAX_NOTICE).then(|| text.to_owned())
    });
    Some(Takedown::Legal { notice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_the_takedown_was() {
        for takedown in [
            Takedown::Disabled,
            Takedown::Legal { notice: None },
            Takedown::Legal {
                notice: Some("by order of a court\nin Bücher".to_owned()),
            },
        ] {
            let mark = mark_of(&takedown);
            assert_eq!(takedown_in(mark.as_bytes()), Some(takedown));
        }
    }

    #[test]
    fn a_negative_entry_is_no_mark_and_garbage_is_no_notice() {
        for other in [&b""[..], b"1", b"41", b"404", b"x410"] {
            assert_eq!(takedown_in(other), None, "{other:?}");
        }
        let long = format!("451\n{}", "x".repeat(MAX_NOTICE + 1));
        for unreadable in [&b"451"[..], b"451x", b"451\n\xff", long.as_bytes()] {
            let takedown = takedown_in(unreadable);
            assert_eq!(takedown, Some(Takedown::Legal { notice: None }));
        }
    }

    #[test]
    fn the_script_and_this_file_agree_on_what_a_mark_is() {
        let script = include_str!("write.lua");
        for kind in [DISABLED, LEGAL] {
            assert!(script.contains(&format!("kind == '{kind}'")), "{kind}");
        }
    }
}
