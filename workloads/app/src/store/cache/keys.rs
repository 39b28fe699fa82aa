//! The keys of a code, and the lifetime of their entries.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::code::Code;

/// The keys of a code. A cluster hashes only the part in braces, which equals the first key, so all keys of a code are
/// on the same node. The default are the keys of an empty code, which never exist. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheKeys(Arc<str>);

impl CacheKeys {
    /// Returns the keys of a code.
    pub fn of(code: Code<'_>) -> Self {
        Self(code.as_str().into())
    }

    /// Returns the key of the destination.
    pub fn link(&self) -> String {
        format!("link:{}", self.0)
    }

    /// Returns the key of the template of a link with arguments.
    pub fn template(&self) -> String {
        format!("{{link:{}}}:template", self.0)
    }

    /// Returns the key of the negative entry, and of the mark of a link that was taken down.
    pub fn none(&self) -> String {
        format!("{{link:{}}}:none", self.0)
    }

    /// Returns the key of the hold.
    pub fn hold(&self) -> String {
        format!("{{link:{}}}:hold", self.0)
    }
}

/// The time for which an entry lives, by the clock of the server. Both times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The time left when the command is sent. The clocks of this process and of the server may differ.
    pub left: u64,
    /// The time of the Unix epoch at which the link ends: even the entry of a command that a frozen server executes late
    /// must not outlive it.
    pub end: Option<i64>,
}

impl From<Duration> for Lifetime {
    fn from(ttl: Duration) -> Self {
        let left = ttl.as_millis().try_into().unwrap_or(u64::MAX);
        Self { left, end: None }
    }
}

impl Lifetime {
    /// Returns the lifetime of an entry for a link, or `None` if the link ends too soon. `jitter` is a factor
    /// around 1, so that entries written together do not end together.
    pub fn of_link(
        ttl: Duration,
        jitter: f64,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        let life = Self::from(ttl.mul_f64(jitter).max(Duration::from_secs(1)));
        let Some(expires_at) = expires_at else {
            return Some(life);
        };
        // A negative time is none. Rounded down: never past the expiry of the link.
        let left = Duration::try_from(expires_at.duration_since(now)).ok()?;
        let left = life.left.min(Self::from(left).left);
        let end = Some(expires_at.as_millisecond());
        (left > 0).then_some(Self { left, end })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::code;

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_cluster_keeps_all_keys_of_a_code_on_one_node() {
        for name in ["a", "k7Qm2xB", &"x".repeat(code::MAX_LENGTH)] {
            let keys = CacheKeys::of(Code::parse(name).unwrap());
            assert_eq!(keys.link(), format!("link:{name}"));
            assert_eq!(keys.template(), format!("{{link:{name}}}:template"));
            assert_eq!(keys.none(), format!("{{link:{name}}}:none"));
            assert_eq!(keys.hold(), format!("{{link:{name}}}:hold"));
        }
    }

    #[test]
    fn a_lasting_link_is_remembered_for_the_configured_time() {
        let hour = Duration::from_secs(3600);
        let life = |jitter| Lifetime::of_link(hour, jitter, None, second(0));
        for (jitter, seconds) in [(0.9, 3240), (1.1, 3960)] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(life(jitter), Some(Lifetime::from(expected)));
        }
        let second_long = Duration::from_secs(1);
        let shortest = Lifetime::of_link(second_long, 0.9, None, second(0));
        assert_eq!(shortest, Some(Lifetime::from(second_long)));
    }

    #[test]
    fn an_entry_never_outlives_its_link() {
        let hour = Duration::from_secs(3600);
        let now = second(1_000_000);
        let life = |left: i64| Lifetime::of_link(hour, 1.0, Some(second(1_000_000 + left)), now);
        let until = |left: u64, end: i64| {
            let end = Some(end);
            Some(Lifetime { left, end })
        };
        assert_eq!(life(7200), until(3_600_000, 1_007_200_000));
        assert_eq!(life(60), until(60_000, 1_000_060_000));
        assert_eq!(life(0), None);
        assert_eq!(life(-1), None);
    }

    proptest! {
        #[test]
        fn whatever_the_times_an_entry_ends_and_never_after_its_link(
            ttl in 1u32.., jitter in 0.9f64..=1.1, expires in 0i64..10_000_000_000_000_000, now in 0i64..10_000_000_000_000_000
        ) {
            let (expires, now) = (Timestamp::from_microsecond(expires).unwrap(), Timestamp::from_microsecond(now).unwrap());
            match Lifetime::of_link(Duration::from_secs(ttl.into()), jitter, Some(expires), now) {
                Some(Lifetime { left, end }) => {
                    let left = Duration::from_millis(left);
                    prop_assert!(!left.is_zero() && now.checked_add(left).is_ok_and(|end| end <= expires));
                    prop_assert_eq!(end, Some(expires.as_millisecond()));
                }
                None => prop_assert!(expires.as_millisecond() <= now.as_millisecond() + 1),
            }
        }
    }
}
