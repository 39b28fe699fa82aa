//! The app with an allocator that counts, for the benchmark. Its metric `allocations_total` says how often memory was
//! allocated or moved since the start.

use std::{alloc::System, fmt, process::ExitCode};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The metric of the allocations.
#[derive(Debug)]
struct Allocations;

impl Collector for Allocations {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let so_far = ALLOCATOR.stats();
        let allocations = ConstCounter::new((so_far.allocations + so_far.reallocations) as u64);
        let help = "Allocations and reallocations of memory";
        let metric = encoder.encode_descriptor("allocations", help, None, MetricType::Counter)?;
        allocations.encode(metric)
    }
}

fn main() -> ExitCode {
    shortener_app::program::run(vec![Box::new(Allocations)])
}
