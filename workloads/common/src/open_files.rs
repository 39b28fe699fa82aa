//! The limit of open files of this process. Each connection is an open file, to clients and to stores.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the system allows, and logs a warning if this is less than the process needs. Many
/// systems begin with 1,024 and allow more, for the sake of programs that call `select`. This one does not.
pub fn allow(needed: u64) {
    let limit = raise();
    if limit < needed {
        tracing::warn!(
            event = "open_files_limited",
            open_files.limit = limit,
            open_files.needed = needed,
            "open_files_limited"
        );
    }
}

/// Raises the limit to the highest one for this process, and returns the limit afterwards.
fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let highest = Rlimit {
        current: before.maximum,
        ..before
    };
    // If the system refuses this, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, highest);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_becomes_the_highest_one() {
        let before = getrlimit(Resource::Nofile);
        // Linux always has a highest number of open files.
        let most = before.maximum.unwrap();
        // The other tests of this process do not notice one file less.
        let lower = Rlimit {
            current: Some(most - 1),
            ..before
        };
        setrlimit(Resource::Nofile, lower).unwrap();
        assert_eq!(raise(), most);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(most));
    }
}
