//! The commands that change the entries of a code. Each is one script, so that a lookup sees all of it or nothing.

use std::{sync::LazyLock, time::Duration};

use redis::{RedisResult, Script};

use super::{
    connection::Connection,
    keys::{Keys, Lifetime},
    pending_writes,
};
use crate::store::Takedown;

/// The time after a change of a link in which only changes write. A write that the cache missed is repeated for a
/// shorter time, so none brings back an earlier state of the link.
pub(super) const HOLD: Duration = pending_writes::RETENTION.saturating_add(Duration::from_secs(10));
/// The values of the mark, which are those of the response. An earlier release takes both for a negative entry.
const DISABLED: &str = "410";
const LEGAL: &str = "451";
/// The maximum length of a notice in a mark, in bytes.
const MAX_NOTICE: usize = 4 * crate::store::MAX_TEXT;

static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("write.lua")));
static PURGE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("purge.lua")));

/// The two kinds of entries, by the number of the key in the script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// The destination.
    Destination = 1,
    /// The negative entry, or the mark of a link that was taken down.
    Mark = 2,
}

/// An entry to be written.
pub(super) struct Entry<'a> {
    pub(super) place: Place,
    pub(super) value: &'a str,
    pub(super) lifetime: Lifetime,
}

/// Writes what was read from the database, unless the link was changed a moment ago or is taken down.
pub(super) async fn fill(connection: Connection, keys: &Keys, entry: Entry<'_>) -> RedisResult<()> {
    write(connection, keys, false, Some(entry)).await
}

/// Writes a new link, if there is anything to write, and ends its negative entry.
pub(super) async fn create(
    connection: Connection,
    keys: &Keys,
    entry: Option<Entry<'_>>,
) -> RedisResult<()> {
    write(connection, keys, true, entry).await
}

async fn write(
    mut connection: Connection,
    keys: &Keys,
    is_new: bool,
    entry: Option<Entry<'_>>,
) -> RedisResult<()> {
    let mut call = WRITE.key(keys.link());
    call.key(keys.none()).key(keys.hold()).arg(u8::from(is_new));
    if let Some(entry) = entry {
        let (option, end) = entry.lifetime.option();
        call.arg(entry.place as u8).arg(entry.value);
        call.arg(option).arg(end);
    }
    call.invoke_async::<()>(&mut connection).await
}

/// Removes the destination after a change of a link, and marks the link if it is down. The mark has to outlive every
/// destination that was written before.
pub(super) async fn purge(
    mut connection: Connection,
    keys: &Keys,
    takedown: Option<&Takedown>,
    longest: Duration,
) -> RedisResult<()> {
    let mark = takedown.map(mark_of).unwrap_or_default();
    let mut call = PURGE.key(keys.link());
    call.key(keys.none()).key(keys.hold());
    call.arg(mark).arg((longest + HOLD).as_secs());
    call.arg(HOLD.as_secs());
    call.invoke_async::<()>(&mut connection).await
}

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
    fn the_scripts_and_the_lookup_agree_on_what_a_mark_is() {
        let script = include_str!("write.lua");
        for kind in [DISABLED, LEGAL] {
            assert!(script.contains(&format!("kind == '{kind}'")), "{kind}");
        }
    }
}
