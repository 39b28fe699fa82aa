//! The metrics of the vector store, by the semantic conventions for databases.
//!
//! <https://opentelemetry.io/docs/specs/semconv/db/database-metrics/>

use std::time::Duration;

use prometheus_client::{
    metrics::{family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};
use tonic::Code;

use crate::metrics::{Gauge, gauge};

/// The upper bounds of the buckets in seconds, as OpenTelemetry recommends.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

type Labels = Vec<(&'static str, String)>;

/// The metrics of the vector store; clones share the same series.
#[derive(Clone, Debug)]
pub struct VectorMetrics {
    duration: Family<Labels, Histogram, fn() -> Histogram>,
    /// 1 while the collection can be used.
    pub up: Gauge,
}

impl VectorMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let duration = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> _);
        registry.register_with_unit(
            "db_client_operation_duration",
            "Time until the vector store answered",
            Unit::Seconds,
            duration.clone(),
        );
        let up = gauge(
            registry,
            "vector_up",
            "1 while the collection of the vector store can be used",
        );
        Self { duration, up }
    }

    /// Counts an operation; `error` is the gRPC status code of a failure.
    pub fn operation(&self, name: &'static str, error: Option<Code>, duration: Duration) {
        let mut labels = vec![
            ("db_system_name", "qdrant".to_owned()),
            ("db_operation_name", name.to_owned()),
        ];
        labels.extend(error.map(|code| ("error_type", format!("{code:?}"))));
        self.duration
            .get_or_create(&labels)
            .observe(duration.as_secs_f64());
    }
}
