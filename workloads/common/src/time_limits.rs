//! The time limits that depend on each other, and how. A limit that nothing depends on stands where it is used.

use std::time::Duration;

/// The wait for the database after which a request asks for a check of it, and after which a check asks if the server still
/// accepts connections. Two checks are at least as far apart.
pub const DATABASE_SUSPICIOUS: Duration = Duration::from_millis(100);
/// The timeout of a check of a database that accepts no connections.
pub const DATABASE_CHECK: Duration = Duration::from_secs(1);
/// The timeout of a check of a database that accepts connections. Silence alone does not prove an outage: on an
/// overloaded node a server may need more than a second for an answer, and treating a live database as down fails every
/// request. Only the first requests of a frozen database wait this long.
pub const DATABASE_FROZEN: Duration = Duration::from_secs(3);
/// The timeout of a login to a database that accepts connections. A login costs a server far more than a check.
pub const DATABASE_LOGIN: Duration = Duration::from_secs(5);
/// The further time for the answer to a check, because this process may have paused.
pub const DATABASE_CHECK_GRACE: Duration = Duration::from_millis(100);
/// The longest wait of an operation for a connection to the database. One that began later would be work for an answer
/// that comes too late.
pub const DATABASE_WAIT: Duration = Duration::from_secs(5);
/// The timeout of one operation on a database that is up.
pub const DATABASE_OPERATION: Duration = Duration::from_secs(5);
/// The longest time of a request in the database.
pub const DATABASE_LONGEST: Duration = DATABASE_WAIT.saturating_add(DATABASE_OPERATION);

/// The timeout of a request, in seconds, if the settings say nothing.
pub const REQUEST: u64 = 10;
/// The time limit for requests in flight when the app stops, in seconds, if the settings say nothing.
pub const DRAIN: u64 = 15;
/// The time for which the app keeps serving when it stops, in seconds, if the settings say nothing.
pub const DRAIN_DELAY: u64 = 5;
/// The time limit for writing clicks after that.
pub const CLICKS_END: Duration = Duration::from_secs(4);
/// The time between SIGTERM and SIGKILL that the operator gives the app, in seconds.
pub const TERMINATION: u64 = 30;

/// The age after which a result of the database is not cached.
pub const CACHE_FRESH: Duration = Duration::from_secs(1);
/// The time to live of the entry in the cache that a code does not exist.
pub const CACHE_DENIAL: Duration = Duration::from_secs(15);
/// The time for which links that the cache has missed are kept and written again.
pub const CACHE_RETENTION: Duration = Duration::from_secs(30);
/// The time for which the kernel goes on sending commands that the server of the cache does not acknowledge. Without a limit
/// it does so for minutes, also after the connection was closed.
pub const CACHE_SENDING: Duration = Duration::from_secs(5);
/// The time after a change of a link in which only changes write its entry.
pub const CACHE_HOLD: Duration = Duration::from_secs(40);

const _: () = {
    // A request that meets a silent database has its error within 1.5 s, also just after a check.
    let noticed = DATABASE_CHECK.saturating_add(DATABASE_CHECK_GRACE);
    assert!(2 * DATABASE_SUSPICIOUS.as_millis() + noticed.as_millis() < 1500);
    // A server that answers checks is found again, and no login outlasts the requests that wait for it.
    assert!(DATABASE_LOGIN.as_secs() >= DATABASE_FROZEN.as_secs());
    assert!(DATABASE_LOGIN.as_secs() <= DATABASE_OPERATION.as_secs());
    // A request that the database answers at all has the answer in time, and one in flight when the app stops, too.
    assert!(DATABASE_LONGEST.as_secs() <= REQUEST && REQUEST < DRAIN);
    // The app ends by itself, and has time left for spans and log records.
    assert!(DRAIN_DELAY + DRAIN + CLICKS_END.as_secs() + 5 < TERMINATION);
    // A slow reader may deny a link some time after it was created: the link is written again after that entry is gone.
    assert!(CACHE_RETENTION.as_secs() >= 2 * CACHE_DENIAL.as_secs());
    // Neither a late result of the database nor a repeated write brings back an earlier state of a link.
    let written = CACHE_RETENTION.saturating_add(CACHE_FRESH);
    assert!(CACHE_HOLD.as_secs() > written.saturating_add(CACHE_SENDING).as_secs());
};
