//! Links from servers that follow the database, while the database is down.
//!
//! A copy may be behind: it may lack a link, or have one that was changed a moment before the outage. So what it lacks counts
//! as unknown, and what it has is not put into the cache.

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use shortener_common::{
    database::StoreError,
    metrics::{Gauge, gauge},
};

use super::{Stored, postgres::Links};
use crate::code::OwnedCode;

/// The metrics of these servers, which exist only with them.
#[derive(Clone, Debug)]
pub struct ReplicaMetrics {
    /// 1 while one of the servers answers.
    pub up: Gauge,
    /// Codes that were found there.
    pub found: Counter,
}

impl ReplicaMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let found = Counter::default();
        registry.register(
            "database_replica_links",
            "Links that were read from a server that follows the database, because the database was down",
            found.clone(),
        );
        Self {
            up: gauge(
                registry,
                "database_replica_up",
                "1 while a server that follows the database answers",
            ),
            found,
        }
    }
}

/// The links on servers that follow the database.
pub struct Replica {
    links: Links,
    found: Counter,
}

impl Replica {
    /// Returns the links of these servers.
    pub fn new(links: Links, metrics: &ReplicaMetrics) -> Self {
        Self {
            links,
            found: metrics.found.clone(),
        }
    }

    /// Looks up the codes that the database did not answer because it is down, and puts the links that there are in place of
    /// the errors.
    pub async fn complete(
        &self,
        codes: &[OwnedCode],
        answers: &mut [Result<Option<Stored>, StoreError>],
    ) {
        // One statement reads all codes, so either all have an answer or none has.
        let down = |answer: &Result<_, _>| matches!(answer, Err(StoreError::Unavailable(_)));
        if !answers.iter().all(down) {
            return;
        }
        let copies = self.links.find_each(codes).await;
        for (answer, copy) in answers.iter_mut().zip(copies) {
            if let Ok(Some(stored)) = copy {
                *answer = Ok(Some(stored));
                self.found.inc();
            }
        }
    }
}
