//! The memory of a program: the limit of its container, and the part of it that each buffer may take.
//!
//! What does not depend on the traffic, and the most that all buffers can hold together, stay below the limit. No
//! traffic can therefore make the kernel end the program.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
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
const FIXED: [(&str, u64); 6] = [
    ("the program, the runtime and certificates", 20),
    // For each signal the items of one batch, their encoding, and the frames of the connection.
    ("batches on their way to the collector", 6),
    ("the connections of the internal port", 2),
    // Two tables by address with 57,344 clients each; keys are few.
    ("rate limits", 7),
    // 512 redirects, 256 other look-ups and 256 changes that wait, and the results of 160 look-ups. The requests belong to
    // the connections, and their bodies to the bodies.
    ("reads and changes that wait for the database", 2),
    ("metrics, and documents that do not change", 2),
];

/// A buffer that grows with the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Open connections on the public port. Further ones wait until one of them ends.
    Connections,
    /// Request bodies and the values in them. A further one is refused.
    Bodies,
    /// Jobs that the broker has not confirmed. A further one is refused.
    Jobs,
    /// Commands to the cache. Without room, a request continues without the cache.
    CacheCommands,
    /// Links that the cache has missed. The oldest ones are dropped.
    CacheWrites,
    /// Spans that wait for the collector. Further ones are dropped.
    Spans,
    /// Log records that wait for the collector. Further ones are dropped.
    LogRecords,
    /// Lines that wait for the reader of standard output. Further ones are dropped.
    LogLines,
}

impl Buffer {
    /// All buffers of the app.
    pub const ALL: [Self; 8] = [
        Self::Connections,
        Self::Bodies,
        Self::Jobs,
        Self::CacheCommands,
        Self::CacheWrites,
        Self::Spans,
        Self::LogRecords,
        Self::LogLines,
    ];
    /// The buffers with a size that clients choose, item by item. How many connections are open is a metric of its own,
    /// and the buffers of telemetry hold a number of items, and count what they drop themselves.
    const COUNTED: [Self; 4] = [
        Self::Bodies,
        Self::Jobs,
        Self::CacheCommands,
        Self::CacheWrites,
    ];

    /// Returns the value of the metric label, and the memory at the default limit in MiB. Another limit changes all
    /// of them in proportion.
    const fn row(self) -> (&'static str, u64) {
        match self {
            // 768 of them, see the server.
            Self::Connections => ("connections", 36),
            Self::Bodies => ("bodies", 12),
            Self::Jobs => ("jobs", 10),
            Self::CacheCommands => ("cache_commands", 2),
            Self::CacheWrites => ("cache_writes", 2),
            Self::Spans => ("spans", 4),
            Self::LogRecords => ("log_records", 4),
            Self::LogLines => ("log_lines", 3),
        }
    }
}

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

/// The budgets of all buffers of a program; cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory([Budget; Buffer::ALL.len()]);

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

    fn divide(limit: u64) -> Self {
        let fixed: u64 = FIXED.iter().map(|(_, size)| size * MIB).sum();
        let parts: u64 = Buffer::ALL.iter().map(|buffer| buffer.row().1).sum();
        let part = (limit - limit / FREE).saturating_sub(fixed) / parts;
        Self(Buffer::ALL.map(|buffer| {
            let bytes = part.saturating_mul(buffer.row().1);
            Budget::new(usize::try_from(bytes).unwrap_or(usize::MAX))
        }))
    }

    /// Returns the budget of a buffer.
    #[must_use]
    pub fn budget(&self, buffer: Buffer) -> Budget {
        self.0[buffer as usize].clone()
    }

    /// Returns the metrics of the buffers that clients fill.
    #[must_use]
    pub fn metrics(&self) -> Box<dyn Collector> {
        Box::new(BufferMetrics(self.clone()))
    }
}

/// Returns the memory limit of the container of this process in bytes.
#[must_use]
pub fn limit_of_container() -> u64 {
    let limit = fs::read_to_string(CONTROL_GROUP).ok();
    // Without a limit, the file contains a word.
    let limit = limit.and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(DEFAULT_LIMIT)
}

/// The metrics `buffer_bytes`, `buffer_limit_bytes` and `buffer_refused_total`, with one series for each buffer.
#[derive(Debug)]
struct BufferMetrics(Memory);

impl BufferMetrics {
    fn encode_each<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help, kind): (&str, &str, MetricType),
        metric: impl Fn(&Budget) -> M,
    ) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for buffer in Buffer::COUNTED {
            let metric = metric(&self.0.0[buffer as usize]);
            metric.encode(family.encode_family(&[("buffer", buffer.row().0)])?)?;
        }
        Ok(())
    }
}

impl Collector for BufferMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Memory that a buffer takes, in bytes";
        let figure = ("buffer_bytes", help, MetricType::Gauge);
        self.encode_each(&mut encoder, figure, |budget| {
            ConstGauge::new(budget.used() as u64)
        })?;
        let help = "Memory that a buffer may take, in bytes";
        let figure = ("buffer_limit_bytes", help, MetricType::Gauge);
        self.encode_each(&mut encoder, figure, |budget| {
            ConstGauge::new(budget.limit() as u64)
        })?;
        let help = "Items that were refused or dropped because their buffer was full";
        let figure = ("buffer_refused", help, MetricType::Counter);
        self.encode_each(&mut encoder, figure, |budget| {
            ConstCounter::new(budget.refused())
        })
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::exposition::Format;

    /// Returns the most memory that a program takes, in bytes.
    fn most(memory: &Memory) -> u64 {
        let fixed: u64 = FIXED.iter().map(|(_, size)| size * MIB).sum();
        let buffers: usize = memory.0.iter().map(Budget::limit).sum();
        fixed + buffers as u64
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
    fn at_the_default_limit_the_table_says_the_sizes() {
        let memory = Memory::default();
        for (place, buffer) in Buffer::ALL.into_iter().enumerate() {
            assert_eq!(buffer as usize, place);
            let bytes = memory.budget(buffer).limit() as u64;
            assert_eq!(bytes, buffer.row().1 * MIB, "{buffer:?}");
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
    fn every_buffer_shows_what_it_takes_may_take_and_refused() {
        let (memory, mut registry) = (Memory::default(), Registry::default());
        registry.register_collector(memory.metrics());
        let budget = memory.budget(Buffer::Jobs);
        let _share = budget.take(7).unwrap();
        assert!(budget.take(usize::MAX).is_none());
        let text = Format::Classic.encode(&registry).unwrap();
        for line in [
            "# TYPE buffer_bytes gauge",
            "buffer_bytes{buffer=\"jobs\"} 7",
            "buffer_bytes{buffer=\"bodies\"} 0",
            "buffer_limit_bytes{buffer=\"jobs\"} 10485760",
            "# TYPE buffer_refused_total counter",
            "buffer_refused_total{buffer=\"jobs\"} 1",
            "buffer_refused_total{buffer=\"bodies\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("log_lines"), "{text}");
    }
}
