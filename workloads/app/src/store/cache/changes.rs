//! The commands that change the entries of a code. Each is one script, so that a lookup sees all of it or nothing.

use std::{sync::LazyLock, time::Duration};

use redis::{RedisResult, Script};

use super::{
    connection::Connection,
    keys::{Keys, Lifetime},
    mark::mark_of,
    pending_writes,
};
use crate::store::Takedown;

/// The time after a change of a link in which only changes write. A write that the cache missed is repeated for a
/// shorter time, so none brings back an earlier state of the link.
pub(super) const HOLD: Duration = pending_writes::RETENTION.saturating_add(Duration::from_secs(10));

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
