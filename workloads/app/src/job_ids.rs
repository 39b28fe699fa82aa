//! The identifiers of jobs. Each carries a keyed tag, so that the app knows an identifier that it gave out without a
//! record of it.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;
use shortener_common::{purge::ANONYMOUS_JOB_DAYS, queue::origin::Origin};
use uuid::Uuid;

/// The place of the tag, the last 4 of 16 bytes. In a UUID of version 7 as the library makes it, the time and a counter
/// stand before it, which keep the identifiers of one process apart; the replaced bytes are random.
const TAG: usize = 12;
/// The number of seconds of a day.
const DAY: u64 = 24 * 60 * 60;
/// The number of seconds for which the ledger keeps a job without a key after its end.
const KEPT_ANONYMOUS: u64 = ANONYMOUS_JOB_DAYS as u64 * DAY;
/// A part of the tag of such a job.
const ANONYMOUS: &[u8] = b"anonymous";

/// The identifiers of one stack's jobs. Without a key they carry no tag, and none is ever known.
#[derive(Clone, Debug, Default)]
pub struct JobIds {
    mac: Option<Hmac<Sha256>>,
    /// The number of seconds for which the ledger keeps a job after its end. An older identifier that has no record may
    /// be that of a job that ended.
    kept: u64,
}

impl JobIds {
    /// Returns the identifiers that this key marks, with the number of days for which the ledger keeps a job. Every
    /// replica has the same key.
    #[must_use]
    pub fn new(key: Option<&str>, retention_days: u32) -> Self {
        let key = key.filter(|key| !key.is_empty());
        Self {
            // HMAC accepts keys of every length.
            mac: key.and_then(|key| Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()),
            kept: u64::from(retention_days) * DAY,
        }
    }

    /// Returns a new identifier for a job of this sender, which sorts by its time.
    #[must_use]
    pub fn mint(&self, sender: &Origin) -> Uuid {
        let mut bytes = Uuid::now_v7().into_bytes();
        if let Some(mac) = &self.mac {
            let (counted, tail) = bytes.split_at_mut(TAG);
            let tag = mac.clone().chain_update(&*counted);
            let tag = tag.chain_update(mark(sender)).finalize().into_bytes();
            for (byte, tagged) in tail.iter_mut().zip(tag.iter()) {
                *byte = *tagged;
            }
        }
        Uuid::from_bytes(bytes)
    }

    /// Returns true if this stack gave the identifier out, so recently that the ledger cannot have dropped its job. A
    /// guess is right once in 2^31.
    #[must_use]
    pub fn knows(&self, id: Uuid, now: Timestamp) -> bool {
        let (Some(mac), Some(minted)) = (&self.mac, id.get_timestamp()) else {
            return false;
        };
        let (minted, _) = minted.to_unix();
        let age = now.as_second().unsigned_abs().saturating_sub(minted);
        let (counted, tag) = id.as_bytes().split_at(TAG);
        let is_of = |mark: &[u8], kept| {
            let tagged = mac.clone().chain_update(counted).chain_update(mark);
            age < kept && tagged.verify_truncated_left(tag).is_ok()
        };
        is_of(b"", self.kept) || is_of(ANONYMOUS, self.kept.min(KEPT_ANONYMOUS))
    }
}

/// Returns what the tag stands for beside the identifier.
fn mark(sender: &Origin) -> &'static [u8] {
    match sender {
        Origin::Anonymous => ANONYMOUS,
        Origin::Client(_) | Origin::Internal => b"",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::SignedDuration;

    use super::*;

    const KEY: Option<&str> = Some("hF3kq0mXc8VbT2nLwRz5sJyD7gAePu4K");

    #[test]
    fn every_replica_knows_what_one_of_them_gave_out() {
        let (one, other) = (JobIds::new(KEY, 30), JobIds::new(KEY, 30));
        let mut minted = BTreeSet::new();
        let mut last = Uuid::nil();
        for _ in 0..1_000 {
            let id = one.mint(&Origin::Internal);
            assert!(other.knows(id, Timestamp::now()), "{id}");
            assert_eq!(id.get_version_num(), 7);
            assert!(last < id, "{id} sorts before {last}");
            last = id;
            minted.insert(id);
        }
        assert_eq!(minted.len(), 1_000);
    }

    #[test]
    fn no_other_identifier_is_known() {
        let ids = JobIds::new(KEY, 30);
        let now = Timestamp::now();
        let id = ids.mint(&Origin::Internal);
        for bit in 0..128 {
            let other = Uuid::from_u128(id.as_u128() ^ (1 << bit));
            assert!(!ids.knows(other, now), "bit {bit}");
        }
        for other in [Uuid::now_v7(), Uuid::nil(), Uuid::max()] {
            assert!(!ids.knows(other, now), "{other}");
        }
        for version in 0..16 {
            for rest in [0, u128::MAX] {
                let other = Uuid::from_u128((rest & !(0xf_u128 << 76)) | (version << 76));
                assert!(!ids.knows(other, now), "{other}");
            }
        }
        let another = JobIds::new(Some("another key of the same length 32"), 30);
        assert!(!another.knows(id, now));
    }

    #[test]
    fn an_identifier_is_known_for_as_long_as_the_ledger_keeps_a_job() {
        let ids = JobIds::new(KEY, 30);
        let (id, now) = (ids.mint(&Origin::Client("shop".into())), Timestamp::now());
        let day = SignedDuration::from_hours(24);
        for (days, known) in [(0, true), (29, true), (31, false), (4_000, false)] {
            assert_eq!(ids.knows(id, now + day * days), known, "{days}");
        }
        assert!(!JobIds::new(KEY, 28).knows(id, now + day * 29));
        let (id, hour) = (ids.mint(&Origin::Anonymous), SignedDuration::from_hours(1));
        for (hours, known) in [(0, true), (23, true), (25, false)] {
            assert_eq!(ids.knows(id, now + hour * hours), known, "{hours}");
        }
        // The clock of another replica may be ahead.
        assert!(ids.knows(id, now - day));
    }

    #[test]
    fn without_a_key_nothing_is_known() {
        for key in [None, Some("")] {
            let ids = JobIds::new(key, 30);
            assert!(!ids.knows(ids.mint(&Origin::Client("shop".into())), Timestamp::now()));
        }
    }

    #[test]
    fn nothing_shows_the_key() {
        assert!(!format!("{:?}", JobIds::new(KEY, 30)).contains("hF3kq0mX"));
    }
}
