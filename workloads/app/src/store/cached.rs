//! Lookup of links: from the cache first, and otherwise from the database, with one concurrent read per code.

use std::sync::Arc;

use shortener_common::{
    backends::StoreState, database::StoreError, telemetry::span::with_current_span,
};

use super::{
    Resolved, Stored,
    cache::{Cache, Known},
    coalescer::Coalescer,
    postgres::{Links, NewLink, Outcome},
};
use crate::code::Code;

/// The result of reading a code.
type Answer = Result<Option<Stored>, StoreError>;

/// The links of one stack, with or without a cache.
pub struct CachedLinks {
    links: Links,
    cache: Option<Arc<Cache>>,
    reads: Arc<Coalescer<Answer>>,
}

impl CachedLinks {
    /// Returns the links of this database, behind this cache.
    #[must_use]
    pub fn new(links: Links, cache: Option<Arc<Cache>>) -> Self {
        Self {
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
                None => {}
            }
        }
        let stored = self.stored(code).await?;
        Ok(stored.map(|stored| match stored {
            Stored::Live { url, .. } => Resolved::To(url.into()),
            Stored::Expired => Resolved::Gone,
        }))
    }

    /// Reads a code from the database, because the cache does not know when a link ends; `None` if it was never
    /// assigned.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn stored(&self, code: Code<'_>) -> Answer {
        let (answer, fresh) = self.read(code).await;
        if matches!(answer, Ok(None)) && !fresh {
            // That read may have begun before the link was created. Links never vanish, so only this result can be
            // outdated, and any read in flight now began later.
            return self.read(code).await.0;
        }
        answer
    }

    async fn read(&self, code: Code<'_>) -> (Answer, bool) {
        let read = || {
            let (links, cache) = (self.links.clone(), self.cache.clone());
            let code = code.to_owned();
            // Keeps the span of this request, even if another request that waits for the read polls it.
            with_current_span(async move {
                let stored = links.find(code.borrow()).await?;
                if let Some(cache) = cache {
                    cache.remember(code.borrow(), stored.as_ref()).await;
                }
                Ok(stored)
            })
        };
        self.reads.join(code.as_str(), read).await
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
