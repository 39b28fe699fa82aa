//! Links that were created while the cache was down.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::store::Link;

/// The maximum number of links, above what one client can create in the period; beyond it, the oldest are dropped.
const CAPACITY: usize = 4096;

/// The recently created links that may still have a negative entry in the cache.
#[derive(Debug)]
pub struct Missed {
    matters_for: Duration,
    links: Mutex<VecDeque<(Instant, Link)>>,
}

impl Missed {
    /// Returns a list that drops links after this time.
    #[must_use]
    pub fn new(matters_for: Duration) -> Self {
        Self {
            matters_for,
            links: Mutex::default(),
        }
    }

    /// Adds a link that was just created.
    pub fn push(&self, link: Link) {
        let mut links = self.recent();
        if links.len() == CAPACITY {
            links.pop_front();
        }
        links.push_back((Instant::now(), link));
    }

    /// Returns the links of the period, oldest first.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        self.recent().iter().map(|(_, link)| link.clone()).collect()
    }

    /// Removes a link that was written to the cache.
    pub fn told(&self, link: &Link) {
        self.recent().retain(|(_, missed)| missed != link);
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Instant, Link)>> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        while links
            .front()
            .is_some_and(|(created, _)| created.elapsed() > self.matters_for)
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

    fn link(number: usize) -> Link {
        Link {
            code: number.to_string(),
            url: "https://example.com/".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
        }
    }

    #[test]
    fn a_link_is_kept_until_the_cache_was_told() {
        let missed = Missed::new(Duration::from_secs(60));
        missed.push(link(1));
        missed.push(link(2));
        missed.told(&link(1));
        assert_eq!(missed.links(), [link(2)]);
    }

    #[test]
    fn what_nobody_can_deny_any_more_is_forgotten() {
        let missed = Missed::new(Duration::ZERO);
        missed.push(link(1));
        while !missed.links().is_empty() {}
    }

    #[test]
    fn memory_stays_bounded_and_the_latest_are_kept() {
        let missed = Missed::new(Duration::from_secs(60));
        for number in 0..CAPACITY + 10 {
            missed.push(link(number));
        }
        let links = missed.links();
        assert_eq!((links.len(), &links[0]), (CAPACITY, &link(10)));
    }
}
