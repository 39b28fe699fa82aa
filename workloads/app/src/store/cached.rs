//! Lookup of links: from the cache first, and otherwise from the database, with one concurrent read per code.

use std::{sync::Arc, time::Duration};

use shortener_common::{
    backends::StoreState, database::StoreError, telemetry::span::with_current_span,
};
use tokio::time::Instant;

use super::{
    Resolved, Stored,
    cache::{Cache, Known},
    coalescer::Coalescer,
    management::{Change, Changed, Management},
    postgres::{Links, NewLink, Outcome},
};
use crate::code::Code;

/// The result of reading a code.
type Answer = Result<Option<Stored>, StoreError>;

/// The age up to which a request takes the destination that another request is reading. It is shorter than the 100 ms
/// after which a link that was taken down must not redirect.
const SHARED: Duration = Duration::from_millis(90);

/// The links of one stack, with or without a cache.
pub struct CachedLinks {
    links: Links,
    management: Management,
    cache: Option<Arc<Cache>>,
    reads: Arc<Coalescer<Answer>>,
}

impl CachedLinks {
    /// Returns the links of this database, behind this cache.
    #[must_use]
    pub fn new(links: Links, cache: Option<Arc<Cache>>) -> Self {
        Self {
            management: links.management(),
            links,
            cache,
            reads: Arc::default(),
        }
    }

    /// Returns the state of the database, for the operator.
    #[must_use]
    pub fn database_state(&self) -> StoreState {
        self.links.database_state()
    }

    /// Returns the state of the cache, for the operator; `None` without a cache.
    #[must_use]
    pub fn cache_state(&self) -> Option<StoreState> {
        let cache = self.cache.as_ref()?;
        Some(cache.breaker().store_state())
    }

    /// Resolves a code; `None` if it was never assigned.
    ///
    /// # Errors
    /// Fails if the database is down and the code is not in the cache.
    pub async fn find(&self, code: Code<'_>) -> Result<Option<Resolved>, StoreError> {
        if let Some(cache) = &self.cache {
            match cache.look_up(code).await {
                Some(Known::To(url)) => return Ok(Some(Resolved::To(url))),
                Some(Known::Nothing) => return Ok(None),
                Some(Known::Down(takedown)) => return Ok(Some(Resolved::Down(takedown))),
                None => {}
            }
        }
        let stored = self.stored(code).await?;
        Ok(stored.map(|stored| match stored {
            Stored::Live { url, .. } => Resolved::To(url.into()),
            Stored::Expired => Resolved::Gone,
            Stored::Down(takedown) => Resolved::Down(takedown),
        }))
    }

    /// Reads a code from the database, because the cache does not know when a link ends; `None` if it was never
    /// assigned.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn stored(&self, code: Code<'_>) -> Answer {
        let (answer, age) = self.read(code).await;
        // The read of another request may have begun before the link was created or taken down. Any read in flight now
        // began later.
        let outdated = match &answer {
            Ok(None) => age.is_some(),
            Ok(Some(Stored::Live { .. })) => age > Some(SHARED),
            _ => false,
        };
        match outdated {
            true => self.read(code).await.0,
            false => answer,
        }
    }

    async fn read(&self, code: Code<'_>) -> (Answer, Option<Duration>) {
        let read = || {
            let (links, cache) = (self.links.clone(), self.cache.clone());
            let code = code.to_owned();
            // Keeps the span of this request, even if another request that waits for the read polls it.
            with_current_span(async move {
                let asked = Instant::now();
                let stored = links.find(code.borrow()).await?;
                if let Some(cache) = cache {
                    // The copy is written while the request goes on.
                    drop(cache.remember(code, stored.clone(), asked));
                }
                Ok(stored)
            })
        };
        self.reads.join(code.as_str(), read).await
    }

    /// Returns the management of the links, for reading.
    #[must_use]
    pub fn management(&self) -> &Management {
        &self.management
    }

    /// Changes a link, if its state allows it. The second value is true if the link is gone from the cache as well;
    /// otherwise a replica removes it later.
    ///
    /// # Errors
    /// Fails if the database is down. The change may then have been made.
    pub async fn change(
        &self,
        code: Code<'_>,
        change: &Change,
        by: &str,
    ) -> Result<(Changed, bool), StoreError> {
        let changed = self.management.change(code, change, by).await?;
        let (Changed::Done(link) | Changed::Already(link)) = &changed else {
            return Ok((changed, true));
        };
        let Some(cache) = &self.cache else {
            return Ok((changed, true));
        };
        // Also if nothing was changed: the first removal may have failed.
        let purged = cache.purge(code, link.told().as_ref()).await;
        if !purged {
            let reason = self.management.hurry(code).await.err();
            let reason = reason.map(|error| error.to_string());
            tracing::warn!(
                event = "purge_postponed",
                link.code = code.as_str(),
                error.message = reason,
                "purge_postponed"
            );
        }
        Ok((changed, purged))
    }

    /// Stores a link, or finds the one to reuse. On success the link is durable, and in the cache if the cache
    /// works.
    ///
    /// # Errors
    /// Fails if the database is down. The link may then exist, but its code was not returned to any client.
    pub async fn create(&self, link: &NewLink) -> Result<Outcome, StoreError> {
        let outcome = self.links.create(link).await?;
        if let (Some(cache), Outcome::Created(created)) = (&self.cache, &outcome) {
            cache.created(created, link.code.is_some()).await;
        }
        Ok(outcome)
    }
}
