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

/// The state of a job that has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// No worker has received it yet.
    Waits,
    /// As [`Self::Waits`], unless it has ended and its record was removed: the queue is in order, so it waits unless a worker
    /// has received a later job.
    WaitsOrRemoved,
}

impl JobIds {
    /// Returns the identifiers that this key marks, with the number of days for which the ledger keeps a job. Every
    /// replica has the same key.
    pub fn new(key: Option<&str>, retention_days: u32) -> Self {
        let key = key.filter(|key| !key.is_empty());
        Self {
            // HMAC accepts keys of every length.
            mac: key.and_then(|key| Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()),
            kept: u64::from(retention_days) * DAY,
        }
    }

    /// Returns a new identifier for a job of this sender, which sorts by its time.
    pub fn mint(&self, sender: &Origin) -> Uuid {
        self.tagged(Uuid::now_v7(), sender)
    }

    /// Returns a UUID of version 7 with the tag of this sender.
    pub fn tagged(&self, id: Uuid, sender: &Origin) -> Uuid {
        let mut bytes = id.into_bytes();
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

    /// Returns the state of a job without a record if this stack gave its identifier out, so recently that its job need not
    /// have ended long ago; else `None`. A guess is right once in 2^31.
    pub fn unrecorded(&self, id: Uuid, now: Timestamp) -> Option<Unrecorded> {
        let (minted, _) = id.get_timestamp()?.to_unix();
        let age = now.as_second().unsigned_abs().saturating_sub(minted);
        let (counted, tag) = id.as_bytes().split_at(TAG);
        let mac = self.mac.clone()?.chain_update(counted);
        let is_of = |mark: &[u8]| {
            let tagged = mac.clone().chain_update(mark);
            tagged.verify_truncated_left(tag).is_ok()
        };
        let is_anonymous = is_of(ANONYMOUS);
        if age >= self.kept || !(is_anonymous || is_of(b"")) {
            return None;
        }
        Some(match is_anonymous && age >= KEPT_ANONYMOUS {
            true => Unrecorded::WaitsOrRemoved,
            false => Unrecorded::Waits,
        })
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

    use super::{Unrecorded::*, *};

    const KEY: Option<&str> = Some("hF3kq0mXc8VbT2nLwRz5sJyD7gAePu4K");

    #[test]
    fn every_replica_knows_what_one_of_them_gave_out() {
        let (one, other) = (JobIds::new(KEY, 30), JobIds::new(KEY, 30));
        let mut minted = BTreeSet::new();
        let mut last = Uuid::nil();
        for _ in 0..1_000 {
            let id = one.mint(&Origin::Internal);
            assert_eq!(other.unrecorded(id, Timestamp::now()), Some(Waits), "{id}");
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
            assert_eq!(ids.unrecorded(other, now), None, "bit {bit}");
        }
        for other in [Uuid::now_v7(), Uuid::nil(), Uuid::max()] {
            assert_eq!(ids.unrecorded(other, now), None, "{other}");
        }
        for version in 0..16 {
            for rest in [0, u128::MAX] {
                let other = Uuid::from_u128((rest & !(0xf_u128 << 76)) | (version << 76));
                assert_eq!(ids.unrecorded(other, now), None, "{other}");
            }
        }
        let another = JobIds::new(Some("another key of the same length 32"), 30);
        assert_eq!(another.unrecorded(id, now), None);
    }

    #[test]
    fn an_identifier_is_known_for_as_long_as_the_ledger_keeps_a_job() {
        let (ids, now, hour) = (
            JobIds::new(KEY, 30),
            Timestamp::now(),
            SignedDuration::from_hours(1),
        );
        for (sender, second_day) in [
            (Origin::Client("shop".into()), Waits),
            // Its record may be gone after a day, but the job may wait for longer.
            (Origin::Anonymous, WaitsOrRemoved),
        ] {
            let id = ids.mint(&sender);
            for (hours, known) in [
                // The clock of another replica may be ahead.
                (-24, Some(Waits)),
                (0, Some(Waits)),
                (23, Some(Waits)),
                (25, Some(second_day)),
                (29 * 24, Some(second_day)),
                (31 * 24, None),
                (4_000 * 24, None),
            ] {
                let found = ids.unrecorded(id, now + hour * hours);
                assert_eq!(found, known, "{sender:?} {hours}");
            }
            let shorter = JobIds::new(KEY, 28);
            assert_eq!(shorter.unrecorded(id, now + hour * 24 * 29), None);
        }
    }

    #[test]
    fn without_a_key_nothing_is_known() {
        for key in [None, Some("")] {
            let ids = JobIds::new(key, 30);
            let id = ids.mint(&Origin::Client("shop".into()));
            assert_eq!(ids.unrecorded(id, Timestamp::now()), None);
        }
    }

    #[test]
    fn nothing_shows_the_key() {
        assert!(!format!("{:?}", JobIds::new(KEY, 30)).contains("hF3kq0mX"));
    }
}
