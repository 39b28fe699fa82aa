//! The metric of spans and log records that were dropped.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::Counter},
};

/// The metric `otel_dropped_total{signal}`. Both series exist from the first scrape on, so that queries see the
/// first increase.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    /// Spans.
    pub(super) traces: Counter,
    /// Log records.
    pub(super) logs: Counter,
}

impl Collector for Dropped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Spans and log records that were dropped, because the export queue was full or the export failed";
        let mut family =
            encoder.encode_descriptor("otel_dropped", help, None, MetricType::Counter)?;
        for (signal, counter) in [("traces", &self.traces), ("logs", &self.logs)] {
            counter.encode(family.encode_family(&[("signal", signal)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::exposition::Format;

    #[test]
    fn both_signals_are_counted_from_zero() {
        let (dropped, mut registry) = (Dropped::default(), Registry::default());
        registry.register_collector(Box::new(dropped.clone()));
        dropped.logs.inc_by(3);
        let text = Format::Classic.encode(&registry).unwrap();
        for line in [
            "# TYPE otel_dropped_total counter",
            "otel_dropped_total{signal=\"traces\"} 0",
            "otel_dropped_total{signal=\"logs\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
