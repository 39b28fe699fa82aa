//! Links that were created while the cache was down.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use shortener_common::budget::{Budget, Share};

use crate::{code::Code, store::Link};

/// The time for which links are kept: twice that of a negative entry, because a slow reader may write one some time
/// after the link was created.
pub const RETENTION: Duration = Duration::from_secs(30);
/// The maximum number of links, above what one client can create in the period; beyond it, the oldest are dropped.
const CAPACITY: usize = 4096;
/// The number of copies of a link: a check of the cache takes the whole list.
const COPIES: usize = 2;

/// The recently created links that may still have a negative entry in the cache.
#[derive(Debug)]
pub struct PendingWrites {
    retention: Duration,
    budget: Budget,
    links: Mutex<VecDeque<(Kept, Link)>>,
}

/// The time from which on a link is kept, and its share of the memory.
#[derive(Debug)]
struct Kept {
    since: Instant,
    _share: Share,
}

impl PendingWrites {
    /// Returns a list that drops links after this time. They fit into the budget.
    #[must_use]
    pub fn new(retention: Duration, budget: Budget) -> Self {
        Self {
            retention,
            budget,
            links: Mutex::default(),
        }
    }

    /// Adds a link that was just created. Without room, the oldest links are dropped.
    pub fn push(&self, link: Link) {
        let bytes = COPIES * (size_of::<(Kept, Link)>() + link.code.len() + link.url.len());
        let mut links = self.recent();
        if links.len() == CAPACITY {
            links.pop_front();
        }
        let share = loop {
            if let Some(share) = self.budget.take(bytes) {
                break share;
            }
            if links.pop_front().is_none() {
                return;
            }
        };
        let since = Instant::now();
        let kept = Kept {
            since,
            _share: share,
        };
        links.push_back((kept, link));
    }

    /// Returns the links of the period, oldest first.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        self.recent().iter().map(|(_, link)| link.clone()).collect()
    }

    /// Returns true if the link of this code is on the list.
    #[must_use]
    pub fn holds(&self, code: Code<'_>) -> bool {
        let links = self.recent();
        links.iter().any(|(_, link)| link.code == code.as_str())
    }

    /// Removes the link of this code, because it was changed.
    pub fn forget(&self, code: Code<'_>) {
        self.recent().retain(|(_, link)| link.code != code.as_str());
    }

    /// Removes a link that was written to the cache.
    pub fn written(&self, link: &Link) {
        self.recent().retain(|(_, pending)| pending != link);
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Kept, Link)>> {
        let mut links = self.links.lock();
        while links
            .front()
            .is_some_and(|(kept, _)| kept.since.elapsed() > self.retention)
        {
            links.pop_front();
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// More bytes than the links of a test take.
    const ROOM: usize = 16 * 1024 * 1024;

    fn link(number: usize) -> Link {
        Link {
            code: number.to_string(),
            url: "https://example.com/".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
        }
    }

    /// Returns a list that keeps links for a minute.
    fn list(bytes: usize) -> PendingWrites {
        PendingWrites::new(Duration::from_secs(60), Budget::new(bytes))
    }

    #[test]
    fn a_link_is_kept_until_the_cache_was_told() {
        let pending = list(ROOM);
        pending.push(link(1));
        pending.push(link(2));
        pending.written(&link(1));
        assert_eq!(pending.links(), [link(2)]);
    }

    #[test]
    fn what_nobody_can_deny_any_more_is_forgotten() {
        let pending = PendingWrites::new(Duration::ZERO, Budget::new(ROOM));
        pending.push(link(1));
        while !pending.links().is_empty() {}
    }

    #[test]
    fn their_number_is_bounded_and_the_latest_are_kept() {
        let pending = list(ROOM);
        for number in 0..CAPACITY + 10 {
            pending.push(link(number));
        }
        let links = pending.links();
        assert_eq!((links.len(), &links[0]), (CAPACITY, &link(10)));
    }

    #[test]
    fn their_memory_is_bounded_and_the_latest_are_kept() {
        let pending = list(64 * 1024);
        let long = |number: usize| Link {
            url: format!("https://example.com/{}", "x".repeat(2000)),
            ..link(number)
        };
        for number in 0..100 {
            pending.push(long(number));
        }
        let links = pending.links();
        assert!((10..20).contains(&links.len()), "{}", links.len());
        assert_eq!(links.last(), Some(&long(99)));
        assert_eq!(pending.budget.refused(), 100 - links.len() as u64);
        pending.written(&long(99));
        assert_eq!(pending.links().len(), links.len() - 1);
        // One link that is larger than everything together is not kept.
        let small = list(1024);
        small.push(long(1));
        assert!(small.links().is_empty());
    }

    #[test]
    fn a_link_on_the_list_is_found_by_its_code() {
        let pending = list(ROOM);
        let link = link(1);
        let holds = || pending.holds(Code::parse(&link.code).unwrap());
        assert!(!holds());
        pending.push(link.clone());
        assert!(holds() && !pending.holds(Code::parse("another").unwrap()));
        pending.written(&link);
        assert!(!holds());
        pending.push(link.clone());
        pending.forget(Code::parse("another").unwrap());
        assert!(holds());
        pending.forget(Code::parse(&link.code).unwrap());
        assert!(!holds());
    }
}
