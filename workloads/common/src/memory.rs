//! The memory of a program: the limit of its container, and the part of it that each buffer may take.
//!
//! What does not depend on the traffic, and the most that all buffers can hold together, stay below the limit. No
//! traffic can therefore make the kernel end the program.

use std::fs;

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::budget::Budget;

const MIB: u64 = 1024 * 1024;
/// The limit if none is known, in bytes. It is the default limit of the pods.
pub const DEFAULT_LIMIT: u64 = 128 * MIB;
/// The smallest limit with which the buffers are of use, in bytes.
const SMALLEST_LIMIT: u64 = 64 * MIB;
/// The share of the limit that stays free: one of so many. Freed memory returns to the system in whole pages only.
const FREE: u64 = 8;
/// The limit of the control group of this process.
const CONTROL_GROUP: &str = "/sys/fs/cgroup/memory.max";

/// The memory that does not depend on the limit, in MiB.
const FIXED: u64 =
    // The program, the runtime and certificates.
    20
    // Batches on their way to the collector: for each signal the items of one batch, their encoding, and the frames of the
    // connection.
    + 6
    // The connections of the internal port and of the management port.
    + 2
    // Rate limits: two tables by address with 57,344 clients each; keys are few.
    + 7
    // 512 redirects, 256 other look-ups and 256 changes that wait for the database, and the results of 160 look-ups. The
    // requests belong to the connections, and their bodies to the bodies.
    + 2
    // 256 commands to the cache, and the links that it has missed.
    + 4
    // The values of one body, while it is read.
    + 3
    // Metrics, and documents that do not change.
    + 2;

/// The memory of all buffers at the default limit, in MiB: the sum of what [`Memory::divide`] gives to each.
const BUFFERS: u64 = 66;

/// The memory limit is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory limit of {} MiB is too low, at least {} MiB are needed: raise resources.limits.memory of this \
     component, or MEMORY_LIMIT_BYTES where the program runs without the operator",
    .limit / MIB,
    .needed.div_ceil(MIB)
)]
pub struct TooLow {
    limit: u64,
    needed: u64,
}

/// The memory of all buffers of a program; cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The bytes for open connections on the public port. Further ones wait until one of them ends.
    pub connections: usize,
    /// Request bodies, and what is kept of them. A further one is refused.
    pub bodies: Budget,
    /// Jobs that the broker has not confirmed. A further one is refused.
    pub jobs: Budget,
    /// The bytes for clicks that the database does not have yet. Further ones are not counted, and counted as lost.
    pub clicks: usize,
    /// The bytes for spans that wait for the collector. Further ones are dropped, and counted with those of telemetry.
    pub spans: usize,
    /// The bytes for log records that wait for the collector, as for spans.
    pub log_records: usize,
    /// The bytes for lines that wait for the reader of standard output. Further ones are dropped, and counted there.
    pub log_lines: usize,
    /// The number of refused and dropped items, by buffer.
    refused: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Default for Memory {
    /// Divides the default limit.
    fn default() -> Self {
        Self::divide(DEFAULT_LIMIT)
    }
}

impl Memory {
    /// Divides the memory of this limit in bytes, except a part for something else.
    ///
    /// # Errors
    /// Fails if the rest is too small for the program.
    pub fn within(limit: u64, reserved: u64) -> Result<Self, TooLow> {
        let own = limit.saturating_sub(reserved);
        if own < SMALLEST_LIMIT {
            let needed = SMALLEST_LIMIT.saturating_add(reserved);
            return Err(TooLow { limit, needed });
        }
        Ok(Self::divide(own))
    }

    /// Gives each buffer its MiB at the default limit. Another limit changes all of them in proportion.
    fn divide(limit: u64) -> Self {
        let unit = (limit - limit / FREE).saturating_sub(FIXED * MIB) / BUFFERS;
        let part = |size: u64| usize::try_from(unit.saturating_mul(size)).unwrap_or(usize::MAX);
        let refused = Family::<_, Counter>::default();
        let budget = |name, size| {
            let mut budget = Budget::new(part(size));
            budget.refused = refused.get_or_create_owned(&[("buffer", name)]);
            budget
        };
        Self {
            // 768 of them, see the server.
            connections: part(36),
            bodies: budget("bodies", 9),
            jobs: budget("jobs", 7),
            // 12,288 links, see the clicks of the app.
            clicks: part(3),
            spans: part(4),
            log_records: part(4),
            log_lines: part(3),
            refused,
        }
    }

    /// Registers the metric of the buffers with a size that clients choose, item by item.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "buffer_refused",
            "Items that were refused or dropped because their buffer was full",
            self.refused.clone(),
        );
    }
}

/// Returns the memory limit of the container of this process in bytes.
pub fn limit_of_container() -> u64 {
    let limit = fs::read_to_string(CONTROL_GROUP).ok();
    // Without a limit, the file contains a word.
    let limit = limit.and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(DEFAULT_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Format;

    /// Returns the most memory that a program takes, in bytes.
    fn most(memory: &Memory) -> u64 {
        let budgets = [&memory.bodies, &memory.jobs];
        let buffers = [
            memory.connections,
            memory.clicks,
            memory.spans,
            memory.log_records,
            memory.log_lines,
        ]
        .into_iter()
        .chain(budgets.map(Budget::limit));
        FIXED * MIB + buffers.sum::<usize>() as u64
    }

    #[test]
    fn everything_fits_the_limit_and_leaves_an_eighth() {
        for limit in [64, 100, 128, 192, 1024, 64 * 1024] {
            let limit = limit * MIB;
            let most = most(&Memory::within(limit, 0).unwrap());
            assert!(most <= limit - limit / FREE, "{most} of {limit}");
            // The division wastes less than one byte for each part.
            assert!(most + 1024 > limit - limit / FREE, "{most} of {limit}");
        }
    }

    #[test]
    fn copies_of_data_come_first_and_the_buffers_share_the_rest() {
        let whole = Memory::within(DEFAULT_LIMIT, 0).unwrap();
        let beside = Memory::within(DEFAULT_LIMIT + 24 * MIB, 24 * MIB).unwrap();
        assert_eq!(most(&whole), most(&beside));
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_the_one_that_is_needed() {
        assert!(Memory::within(64 * MIB, 0).is_ok());
        for (limit, reserved, needed) in [(63, 0, 64), (128, 65, 129), (0, 0, 64)] {
            let error = Memory::within(limit * MIB, reserved * MIB).unwrap_err();
            let expected = format!(
                "the memory limit of {limit} MiB is too low, at least {needed} MiB are needed: raise \
                 resources.limits.memory of this component, or MEMORY_LIMIT_BYTES where the program runs without the \
                 operator"
            );
            assert_eq!(error.to_string(), expected);
        }
        assert!(Memory::within(DEFAULT_LIMIT, u64::MAX).is_err());
    }

    #[test]
    fn what_finds_no_room_is_counted_by_buffer() {
        let (memory, mut registry) = (Memory::default(), Registry::default());
        memory.register(&mut registry);
        let _share = memory.jobs.take(7).unwrap();
        assert!(memory.jobs.take(usize::MAX).is_none());
        let text = Format::Classic.encode(&registry).unwrap();
        for line in [
            "# TYPE buffer_refused_total counter",
            "buffer_refused_total{buffer=\"jobs\"} 1",
            "buffer_refused_total{buffer=\"bodies\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
