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
    #[must_use]
    pub fn of(code: Code<'_>) -> Self {
        Self(code.as_str().into())
    }

    /// Returns the key of the destination.
    #[must_use]
    pub fn link(&self) -> String {
        format!("link:{}", self.0)
    }

    /// Returns the key of the negative entry, and of the mark of a link that was taken down.
    #[must_use]
    pub fn none(&self) -> String {
        format!("{{link:{}}}:none", self.0)
    }

    /// Returns the key of the hold.
    #[must_use]
    pub fn hold(&self) -> String {
        format!("{{link:{}}}:hold", self.0)
    }
}

/// The end of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// After this number of seconds.
    Seconds(u64),
    /// At this second of the Unix epoch. Even a command that a frozen cache executes late must not outlive the
    /// link.
    Until(i64),
}

impl Lifetime {
    /// Returns the lifetime of an entry for a link, or `None` if the link ends too soon. `jitter` is a factor
    /// around 1, so that entries written together do not end together.
    #[must_use]
    pub fn of_link(
        ttl: Duration,
        jitter: f64,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        let seconds = (ttl.mul_f64(jitter).as_secs_f64().round() as u64).max(1);
        let Some(expires_at) = expires_at else {
            return Some(Self::Seconds(seconds));
        };
        let end = now.as_second().saturating_add_unsigned(seconds);
        // Whole seconds, rounded down: never past the expiry of the link.
        let end = end.min(expires_at.as_second());
        (end > now.as_second()).then_some(Self::Until(end))
    }

    /// Returns the option of `SET` for this lifetime, and its value.
    #[must_use]
    pub fn option(self) -> (&'static str, String) {
        match self {
            Self::Seconds(seconds) => ("EX", seconds.to_string()),
            Self::Until(second) => ("EXAT", second.to_string()),
        }
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
            assert_eq!(keys.none(), format!("{{link:{name}}}:none"));
            assert_eq!(keys.hold(), format!("{{link:{name}}}:hold"));
        }
    }

    #[test]
    fn a_lasting_link_is_remembered_for_the_configured_time() {
        let hour = Duration::from_secs(3600);
        let life = |jitter| Lifetime::of_link(hour, jitter, None, second(0));
        assert_eq!(life(0.9), Some(Lifetime::Seconds(3240)));
        assert_eq!(life(1.1), Some(Lifetime::Seconds(3960)));
        let shortest = Lifetime::of_link(Duration::from_secs(1), 0.9, None, second(0));
        assert_eq!(shortest, Some(Lifetime::Seconds(1)));
    }

    #[test]
    fn an_entry_never_outlives_its_link() {
        let hour = Duration::from_secs(3600);
        let now = second(1_000_000);
        let life = |left: i64| Lifetime::of_link(hour, 1.0, Some(second(1_000_000 + left)), now);
        assert_eq!(life(7200), Some(Lifetime::Until(1_003_600)));
        assert_eq!(life(60), Some(Lifetime::Until(1_000_060)));
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
                Some(Lifetime::Until(end)) => {
                    prop_assert!(second(end) <= expires);
                    prop_assert!(second(end) > now);
                }
                Some(Lifetime::Seconds(_)) => prop_assert!(false, "a link that expires has a fixed end"),
                None => prop_assert!(expires.as_second() <= now.as_second()),
            }
        }
    }
}
