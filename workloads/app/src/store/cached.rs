//! Lookup of links: from the cache first, and otherwise from the database, with one concurrent read per code.

mod owned;

use std::sync::Arc;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use shortener_common::{
    backends::Backends,
    batcher::{Batcher, Limits, NoAnswer, Question},
    database::StoreError,
    time_limits::DATABASE_LONGEST,
};
use tokio::time::{Instant, timeout};

use super::{
    Link, Resolved, Stored,
    audit::Cause,
    cache::Cache,
    management::{
        Change, Changed, Import, Imported, LinkRecord, Management, PortableLink, takedown,
    },
    postgres::{Links, NewLink, Outcome},
    replica::Replica,
};
use crate::{
    code::{Code, OwnedCode},
    rights::Rights,
};

/// The maximum number of codes in one statement.
const CODES: usize = 32;
/// The number of imported links that are written to the cache at a time. Each is a command, so the others keep some room.
const WRITES: usize = 32;
/// The maximum number of look-ups that wait for a statement. Others than these have half of the connections that the
/// default memory holds.
const WAITING: usize = 512;

/// The result of reading a code.
type Answer = Result<Option<Stored>, StoreError>;

/// The links of one stack, with or without a cache.
pub struct CachedLinks {
    links: Links,
    management: Management,
    cache: Option<Arc<Cache>>,
    reads: Arc<Batcher<Read>>,
}

/// The question what the database knows about codes. The answers go to the cache as well.
struct Read {
    links: Links,
    replica: Option<Replica>,
    cache: Option<Arc<Cache>>,
}

impl Question for Read {
    type Key = OwnedCode;
    type Answer = Answer;

    async fn ask(&self, codes: &[OwnedCode]) -> Vec<Answer> {
        let asked = Instant::now();
        let mut answers = self.links.find_each(codes).await;
        if let Some(cache) = &self.cache {
            for (code, answer) in codes.iter().zip(&answers) {
                if let Ok(stored) = answer {
                    // The copy is written while the request goes on.
                    drop(cache.remember(code.clone(), stored.clone(), asked));
                }
            }
        }
        if let Some(replica) = &self.replica {
            replica.complete(codes, &mut answers).await;
        }
        answers
    }
}

impl CachedLinks {
    /// Returns the links of this database, behind this cache. While the database is down, they come from its replica.
    pub fn new(links: Links, replica: Option<Replica>, cache: Option<Arc<Cache>>) -> Self {
        let read = Read {
            links: links.clone(),
            replica,
            cache: cache.clone(),
        };
        let limits = Limits {
            questions: links.database().connections_for_look_ups(),
            keys: CODES,
            waiting: WAITING,
        };
        Self {
            reads: Arc::new(Batcher::new(read, limits, links.database().waiting())),
            management: links.management(),
            links,
            cache,
        }
    }

    /// Returns the states of the database and of the cache, for the operator.
    pub fn backends(&self) -> Backends {
        let cache = self.cache.as_ref();
        Backends {
            database: self.links.database().health.state(),
            cache: cache.map(|cache| cache.connection().health.state()),
            ..Backends::default()
        }
    }

    /// Resolves a code.
    ///
    /// # Errors
    /// Fails if the database is down, and the code is neither in the cache nor on a replica.
    pub async fn find(&self, code: Code<'_>) -> Result<Resolved, StoreError> {
        if let Some(cache) = &self.cache
            && let Some(resolved) = cache.look_up(code).await
        {
            return Ok(resolved);
        }
        Ok(match self.stored(code).await? {
            Some(Stored::Live { url, .. }) => Resolved::To(url.into()),
            Some(Stored::Template { text, .. }) => Resolved::Template(text),
            Some(Stored::Expired) => Resolved::Gone,
            Some(Stored::Down(takedown)) => Resolved::Down(takedown),
            None => Resolved::Nothing,
        })
    }

    /// Reads a code from the database, because the cache does not know when a link ends; `None` if it was never
    /// assigned.
    ///
    /// # Errors
    /// Fails if the database is down, and the code is not on a replica.
    pub async fn stored(&self, code: Code<'_>) -> Answer {
        let database = self.links.database();
        let read = async {
            match timeout(DATABASE_LONGEST, self.reads.look_up(code.to_owned())).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(NoAnswer::Ended)) => Err(StoreError::Unavailable("the app ends".to_owned())),
                Ok(Err(NoAnswer::Full)) | Err(_) => Err(database.refuse_look_up()),
            }
        };
        database.server().call("SELECT links", read).await
    }

    /// Returns the management of the links, for reading.
    pub fn management(&self) -> &Management {
        &self.management
    }

    /// Changes a link, if its state allows it. The second value is true if the link is gone from the cache as well, and
    /// false if a replica removes it later; `None` if the cache has nothing of what changed.
    ///
    /// # Errors
    /// Fails if the database is down. The change may then have been made.
    pub async fn change(
        &self,
        code: Code<'_>,
        change: &Change,
        cause: &Cause,
        rights: &Rights,
    ) -> Result<(Changed, Option<bool>), StoreError> {
        let change_made = self.management.change(code, change, cause, rights);
        let changed = change_made.await?;
        let (Changed::Done(link, _) | Changed::Already(link)) = &changed else {
            return Ok((changed, None));
        };
        if !change.affects_redirects() {
            return Ok((changed, None));
        }
        // Also if nothing was changed: the first removal may have failed.
        let purged = self.purge(link).await;
        Ok((changed, Some(purged)))
    }

    /// Removes a link that was changed from the cache, and marks it if it is down. Returns false if the cache did not
    /// confirm it, so that a replica removes it later.
    async fn purge(&self, link: &LinkRecord) -> bool {
        let (Some(cache), Ok(code)) = (&self.cache, Code::parse(&link.code)) else {
            return true;
        };
        let purged = cache.purge(code, link.told().as_ref()).await;
        if !purged {
            tracing::warn!(
                event = "purge_postponed",
                link.code = code.as_str(),
                "purge_postponed"
            );
        }
        purged
    }

    /// Stores a link, or finds the one to reuse. On success the link is durable. If the cache works, a new link is in it,
    /// and it denies none.
    ///
    /// # Errors
    /// Fails if the database is down. The link may then exist, but its code was not returned to any client.
    pub async fn create(&self, link: &NewLink) -> Result<Outcome, StoreError> {
        let outcome = self.links.create(link).await?;
        self.acknowledge(link, &outcome).await;
        Ok(outcome)
    }

    /// Stores the links whose codes are free, and returns a result for each link in order. On success the links are durable.
    /// If the cache works, it denies none of them.
    ///
    /// # Errors
    /// Fails if the database is down. All of the links or none of them may then have been stored.
    pub async fn import(
        &self,
        import: &Import,
        cause: &Cause,
    ) -> Result<Vec<Imported>, StoreError> {
        let results = self.management.import(import, cause).await?;
        if let (Some(cache), false) = (&self.cache, import.dry_run) {
            stream::iter(import.links.iter().zip(&results))
                .for_each_concurrent(WRITES, |(link, result)| {
                    write_imported(cache, link, *result, import.now)
                })
                .await;
        }
        Ok(results)
    }

    /// Finds the link of an earlier request with the key of this one, and stores nothing; `None` if no request holds the
    /// key.
    pub async fn repeated(&self, link: &NewLink) -> Result<Option<Outcome>, StoreError> {
        let Some(once) = &link.once else {
            return Ok(None);
        };
        let outcome = self.links.repeated(&link.url, once).await?;
        if let Some(outcome) = &outcome {
            self.acknowledge(link, outcome).await;
        }
        Ok(outcome)
    }

    /// Prepares the cache for the first request for a link whose creator gets a response now.
    async fn acknowledge(&self, request: &NewLink, outcome: &Outcome) {
        let Some(cache) = &self.cache else {
            return;
        };
        match outcome {
            Outcome::Created(link) => cache.created(link, request.code.is_some()).await,
            Outcome::Reused(link) | Outcome::Repeated(link) if request.code.is_some() => {
                cache.found(link).await;
            }
            _ => {}
        }
    }
}

/// Prepares the cache for the first request for an imported link.
async fn write_imported(cache: &Cache, link: &PortableLink, result: Imported, now: Timestamp) {
    let is_live = link.expires_at.is_none_or(|end| end > now);
    let copy = |url: &str| Link {
        code: link.code.clone(),
        url: url.to_owned(),
        template: link.template,
        created_at: link.created_at.unwrap_or(now),
        expires_at: link.expires_at,
    };
    match (result, &link.disabled, &link.url) {
        (Imported::Conflict(_), ..) => {}
        (Imported::Created, Some(down), _) => {
            if let Ok(code) = Code::parse(&link.code) {
                let takedown = takedown(down.how.as_str(), down.notice.clone());
                cache.purge(code, Some(&takedown)).await;
            }
        }
        (Imported::Created, None, Some(url)) if is_live => cache.created(&copy(url), true).await,
        // An earlier request may have ended before it wrote.
        _ => cache.found(&copy("")).await,
    }
}
