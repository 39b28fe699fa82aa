//! The reserve of the database. From a share of its capacity on, requests without a key store no more records, and from a larger
//! share on no more links, so that clients with keys and the service itself still can. Redirects are never refused for it.
//!
//! Deleted rows leave space inside the file of their table, which only new rows of the same table use. It counts as free for them.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use shortener_common::{
    backends::{Fault, StoreState},
    database::Database,
};
use tokio::time::sleep;

/// The interval of the check.
const INTERVAL: Duration = Duration::from_secs(30);
/// The size of all files of the database in bytes, without the write-ahead log, and the free space inside the files of each
/// table of [`Stores`] and of its large values, without indexes.
///
/// The free space is what the rows do not need by the statistics of the database. They count the rows of a table, and store
/// its widths only when it is analyzed: without a width, nothing is free. Beside its values a row has up to 36 bytes of header
/// and pointer, and a quarter more covers padding, pages that are not full, and rows that a crash left uncounted. A part of a large
/// value takes at most a quarter of a page.
const SIZES: &str = "SELECT pg_database_size(current_database()), \
    coalesce(sum(free) FILTER (WHERE name = 'links'), 0)::bigint, \
    coalesce(sum(free) FILTER (WHERE name = 'jobs'), 0)::bigint, \
    coalesce(sum(free) FILTER (WHERE name = 'documents'), 0)::bigint \
    FROM (SELECT owner.relname AS name, greatest(0, pg_relation_size(file.oid) \
        - (greatest(file.reltuples, pg_stat_get_live_tuples(file.oid)) + pg_stat_get_dead_tuples(file.oid)) \
        * CASE file.relkind WHEN 't' THEN 2048 ELSE 1.25 * (36 + ( \
            SELECT sum((1 - null_frac) * avg_width) FROM pg_stats \
            WHERE schemaname = owner.relnamespace::regnamespace::text AND tablename = owner.relname)) END) AS free \
        FROM pg_class AS owner JOIN pg_class AS file ON file.oid IN (owner.oid, owner.reltoastrelid) \
        WHERE owner.oid IN (to_regclass('links'), to_regclass('jobs'), to_regclass('documents')) \
        AND file.reltuples >= 0) AS files";

shortener_common::words! {
    /// The data that a route stores in the database, with the name of its table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Stores {
        Links = "links",
        Jobs = "jobs",
        Documents = "documents",
    }
}

impl Stores {
    /// Returns the share of the capacity in per cent from which on requests without a key are refused: a client may send
    /// many jobs and documents.
    fn limit(self) -> i64 {
        match self {
            Self::Links => 85,
            Self::Jobs | Self::Documents => 70,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Table {
    table: &'static str,
}

/// The size of the database, compared with its capacity; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// The capacity in bytes; 0 if it is not known.
    capacity: Gauge,
    /// The size in bytes; 0 until it is known.
    size: Gauge,
    /// The free space in bytes inside the files of each table.
    reusable: Family<Table, Gauge>,
}

impl Storage {
    /// Registers the metrics of a database with this capacity in bytes, if it is known.
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
        let help = "Space inside the files of a table that its new rows use, estimated";
        let reusable = storage.reusable.clone();
        registry.register_with_unit("database_reusable", help, Unit::Bytes, reusable);
        storage
    }

    /// Returns true if a request without a key may store such data.
    pub fn admits(&self, stores: Stores) -> bool {
        let (size, capacity) = (self.size.get(), self.capacity.get());
        let limit = capacity / 100 * stores.limit();
        // Most databases are far from it.
        capacity == 0 || size < limit || size - self.reusable(stores).get() < limit
    }

    /// Returns the state of a database for which the operator asks: with a fault if it is up, and requests without a key
    /// may not store some of such data.
    pub fn state(&self, database: StoreState, used: &[Stores]) -> StoreState {
        let mut refused = used.iter().filter(|stores| !self.admits(**stores));
        match (database, refused.next()) {
            (StoreState::Up, Some(Stores::Links)) => StoreState::Down(Fault::LinksReserved),
            (StoreState::Up, Some(_)) => StoreState::Down(Fault::RecordsReserved),
            _ => database,
        }
    }

    fn reusable(&self, stores: Stores) -> Gauge {
        let table = stores.as_str();
        self.reusable.get_or_create_owned(&Table { table })
    }

    /// Follows the size of the database without end. While the database is down, the last size holds.
    pub async fn follow(self, database: Database) {
        loop {
            let sizes = database.run("SELECT pg_database_size", |pool| async move {
                let sizes = sqlx::query_as::<_, (i64, i64, i64, i64)>(SIZES);
                sizes.fetch_one(&pool).await
            });
            if let Ok((size, links, jobs, documents)) = sizes.await {
                for (stores, reusable) in Stores::ALL.into_iter().zip([links, jobs, documents]) {
                    self.reusable(stores).set(reusable);
                }
                self.size.set(size);
            }
            sleep(INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: i64 = 1 << 30;

    fn storage(capacity: Option<u64>) -> Storage {
        Storage::register(&mut Registry::default(), capacity)
    }

    #[test]
    fn records_are_refused_before_links_and_nothing_without_a_known_capacity() {
        let storage_of_1_gib = storage(Some(1 << 30));
        let (up, records) = (StoreState::Up, StoreState::Down(Fault::RecordsReserved));
        let links = StoreState::Down(Fault::LinksReserved);
        for (percent, admitted, state) in [
            (0, [true, true, true], up),
            (69, [true, true, true], up),
            (71, [true, false, false], records),
            (84, [true, false, false], records),
            (86, [false, false, false], links),
            (120, [false, false, false], links),
        ] {
            storage_of_1_gib.size.set(CAPACITY / 100 * percent);
            let found = Stores::ALL.map(|stores| storage_of_1_gib.admits(stores));
            assert_eq!(found, admitted, "{percent} %");
            let told = storage_of_1_gib.state(up, &Stores::ALL);
            assert_eq!(told, state, "{percent} %");
            let unknown = StoreState::Unknown;
            assert_eq!(storage_of_1_gib.state(unknown, &Stores::ALL), unknown);
        }
        let unknown = storage(None);
        unknown.size.set(i64::MAX);
        assert!(Stores::ALL.iter().all(|stores| unknown.admits(*stores)));
    }

    #[test]
    fn only_the_table_with_free_space_inside_its_file_takes_more() {
        let storage = storage(Some(1 << 30));
        storage.size.set(CAPACITY / 100 * 90);
        storage.reusable(Stores::Jobs).set(CAPACITY / 100 * 25);
        let admitted = Stores::ALL.map(|stores| storage.admits(stores));
        assert_eq!(admitted, [false, true, false]);
        let of_jobs = storage.state(StoreState::Up, &[Stores::Jobs]);
        assert_eq!(of_jobs, StoreState::Up);
        storage.reusable(Stores::Jobs).set(CAPACITY / 100 * 15);
        assert!(!storage.admits(Stores::Jobs));
    }
}
