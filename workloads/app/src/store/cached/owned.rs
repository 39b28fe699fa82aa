//! Links that belong to ShortLinks: what their changes mean for the cache.

use jiff::Timestamp;
use shortener_common::{database::StoreError, time_limits::CACHE_RETENTION};

use super::CachedLinks;
use crate::store::management::{
    LinkRecord, LinkState,
    ownership::{
        Applied, Policy, Written,
        decision::{Decision, Wish, decide, is_taken_down},
    },
};

impl CachedLinks {
    /// Makes the link of a wish what was asked for. `known` is what the database said of its code a moment ago; if that is
    /// what was asked for, nothing is written. On success the link is durable. If the cache works, it denies no link that
    /// exists, and has none that is down.
    ///
    /// # Errors
    /// Fails if the database is down. The changes may then have been made.
    pub async fn settle(
        &self,
        wish: &Wish,
        known: Option<&LinkRecord>,
        now: Timestamp,
    ) -> Result<(Applied, Option<Written>), StoreError> {
        let decision = decide(known, wish, now);
        let (applied, written) = match decision {
            Decision::Refuse(refusal) => (Applied::Refused(refusal), None),
            Decision::Keep => {
                self.confirm(known, now).await;
                (Applied::Unchanged, None)
            }
            Decision::Create | Decision::Change { .. } => {
                self.management.settle(wish, known, now).await?
            }
        };
        self.show(written.as_ref()).await;
        let link = written.as_ref().map(|written| &written.link).or(known);
        let is_down = link.is_some_and(|link| is_taken_down(link, wish));
        let applied = match applied {
            Applied::Changed | Applied::Unchanged if is_down => Applied::TakenDown,
            applied => applied,
        };
        Ok((applied, written))
    }

    /// Ends the ownership of a link, and does with the link what the policy says. Returns `None`, and changes nothing, if
    /// the object with this identity does not own it.
    ///
    /// # Errors
    /// Fails if the database is down. The changes may then have been made.
    pub async fn release(
        &self,
        code: &str,
        uid: &str,
        policy: Policy,
    ) -> Result<Option<Written>, StoreError> {
        let written = self.management.release(code, uid, policy).await?;
        self.show(written.as_ref()).await;
        Ok(written)
    }

    /// Brings the cache up to what was written.
    async fn show(&self, written: Option<&Written>) {
        let (
            Some(cache),
            Some(Written {
                link,
                is_new,
                is_noticed,
                ..
            }),
        ) = (&self.cache, written)
        else {
            return;
        };
        if *is_new && link.state() == LinkState::Live {
            cache.created(&link.link(), true).await;
        } else if *is_noticed {
            self.purge(link).await;
        }
    }

    /// Ends the negative entry of a link that an earlier request created a moment ago: it may have ended before it wrote.
    async fn confirm(&self, link: Option<&LinkRecord>, now: Timestamp) {
        let (Some(cache), Some(link)) = (&self.cache, link) else {
            return;
        };
        let age = now.duration_since(link.created_at);
        if age.as_secs_f64() < CACHE_RETENTION.as_secs_f64() {
            cache.found(&link.link()).await;
        }
    }
}
