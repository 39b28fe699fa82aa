//! How long messages have been due. The app measures it, because a sender that has stopped exports no metrics.

use std::{collections::BTreeSet, time::Duration};

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use tokio::time::sleep;

use crate::store::webhooks::Outbox;

/// The time between two looks at the outbox.
const INTERVAL: Duration = Duration::from_secs(30);

/// The time for which the oldest message to each receiver has been due; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Overdue(Family<[(&'static str, String); 1], Gauge>);

impl Overdue {
    /// Registers the metric.
    pub fn register(registry: &mut Registry) -> Self {
        let overdue = Self::default();
        registry.register_with_unit(
            "webhook_overdue",
            "Time for which the oldest message to a receiver has been due; 0 if none is",
            Unit::Seconds,
            overdue.0.clone(),
        );
        overdue
    }

    /// Shows the receivers, each with its time in seconds, and no other one.
    pub fn show(&self, known: &mut BTreeSet<String>, receivers: Vec<(String, i64)>) {
        let label = |name: &str| [("receiver", name.to_owned())];
        let names = receivers.iter().map(|(name, _)| name.clone()).collect();
        for gone in known.difference(&names) {
            self.0.remove(&label(gone));
        }
        for (name, seconds) in &receivers {
            self.0.get_or_create(&label(name)).set(*seconds);
        }
        *known = names;
    }

    /// Follows the outbox without end. Without an answer, the last times hold.
    pub async fn follow(self, outbox: Outbox) {
        let mut known = BTreeSet::new();
        loop {
            outbox.up().await;
            match outbox.overdue().await {
                Ok(receivers) => self.show(&mut known, receivers),
                Err(error) => {
                    tracing::warn!(event = "webhook_count_failed", error.message = %error, "webhook_count_failed");
                }
            }
            sleep(INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use shortener_common::exposition::Format;

    use super::*;

    #[test]
    fn a_receiver_that_has_left_is_not_shown_any_more() {
        let mut registry = Registry::default();
        let (overdue, mut known) = (Overdue::register(&mut registry), BTreeSet::new());
        let mut shown = |receivers: &[(&str, i64)]| {
            let receivers = receivers.iter();
            let receivers = receivers.map(|(name, seconds)| ((*name).to_owned(), *seconds));
            overdue.show(&mut known, receivers.collect());
            let text = Format::OpenMetrics.encode(&registry).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("webhook_"));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let audit = r#"webhook_overdue_seconds{receiver="audit"} 7"#;
        let crm = r#"webhook_overdue_seconds{receiver="crm"} 0"#;
        assert_eq!(shown(&[("audit", 7), ("crm", 0)]), [audit, crm]);
        assert_eq!(shown(&[("audit", 7)]), [audit]);
        assert_eq!(shown(&[]), [""; 0]);
    }
}
