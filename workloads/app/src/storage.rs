//! The reserve of the database. From a share of its capacity on, requests without a key store no more records, and from a larger
//! share on no more links, so that clients with keys and the service itself still can. Redirects are never refused for it.

use std::time::Duration;

use prometheus_client::{
    metrics::gauge::Gauge,
    registry::{Registry, Unit},
};
use shortener_common::database::Database;
use tokio::time::sleep;

/// The interval of the check.
const INTERVAL: Duration = Duration::from_secs(30);
/// The size of all files of the database in bytes, without the write-ahead log.
const SIZE: &str = "SELECT pg_database_size(current_database())";

/// The data that a route stores in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Jobs or documents, of which a client may send many.
    Records,
    /// Links.
    Links,
}

impl Stores {
    /// Returns the share of the capacity in per cent from which on requests without a key are refused.
    fn limit(self) -> i64 {
        match self {
            Self::Records => 70,
            Self::Links => 85,
        }
    }
}

/// The size of the database, compared with its capacity; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// The capacity in bytes; 0 if it is not known.
    capacity: Gauge,
    /// The size in bytes; 0 until it is known.
    size: Gauge,
}

impl Storage {
    /// Registers the metrics of a database with this capacity in bytes, if it is known.
    #[must_use]
    pub fn register(registry: &mut Registry, capacity: Option<u64>) -> Self {
        let storage = Self::default();
        let mut register = |name, help, gauge: &Gauge| {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        };
        let help = "Size of the database, without the write-ahead log";
        register("database_size", help, &storage.size);
        if let Some(capacity) = capacity {
            let help = "Space for the database on its volume";
            register("database_capacity", help, &storage.capacity);
            storage
                .capacity
                .set(capacity.try_into().unwrap_or(i64::MAX));
        }
        storage
    }

    /// Returns true if a request without a key may store such data.
    #[must_use]
    pub fn admits(&self, stores: Stores) -> bool {
        let (size, capacity) = (self.size.get(), self.capacity.get());
        capacity == 0 || size < capacity / 100 * stores.limit()
    }

    /// Follows the size of the database without end. While the database is down, the last size holds.
    pub async fn follow(self, database: Database) {
        loop {
            let size = database.run("SELECT pg_database_size", |pool| async move {
                sqlx::query_scalar(SIZE).fetch_one(&pool).await
            });
            if let Ok(size) = size.await {
                self.size.set(size);
            }
            sleep(INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_refused_before_links_and_nothing_without_a_known_capacity() {
        let of = |capacity| Storage::register(&mut Registry::default(), capacity);
        let storage = of(Some(1 << 30));
        for (percent, records, links) in [
            (0, true, true),
            (69, true, true),
            (71, false, true),
            (84, false, true),
            (86, false, false),
            (120, false, false),
        ] {
            storage.size.set((1 << 30) / 100 * percent);
            let admitted = [Stores::Records, Stores::Links].map(|stores| storage.admits(stores));
            assert_eq!(admitted, [records, links], "{percent} %");
        }
        let unknown = of(None);
        unknown.size.set(i64::MAX);
        assert!(unknown.admits(Stores::Records) && unknown.admits(Stores::Links));
    }
}
