//! The metrics of the sender.

use std::sync::atomic::AtomicU32;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge, info::Info},
    registry::Registry,
};
use shortener_common::metrics::{Gauge, gauge};

use super::Receivers;
use crate::store::webhooks::deliveries::{DeliveryState, ReceiverState};

type ByReceiver = [(&'static str, String); 1];
type ByOutcome = [(&'static str, String); 2];

/// The results of attempts.
pub const DELIVERED: &str = "delivered";
pub const FAILED: &str = "failed";
pub const GIVEN_UP: &str = "given_up";

/// All metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    attempts: Family<ByOutcome, Counter>,
    waiting: Family<ByOutcome, gauge::Gauge>,
    dropped: Family<ByReceiver, Counter>,
    secrets: Family<ByReceiver, gauge::Gauge<u32, AtomicU32>>,
    /// The metrics of a scrape.
    pub registry: Registry,
    /// 1 while the database answers.
    pub database_up: Gauge,
}

impl Metrics {
    /// Returns the metrics of these receivers. Every series exists from the first scrape on.
    pub fn of(Receivers(receivers): &Receivers) -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            attempts: Family::default(),
            waiting: Family::default(),
            dropped: Family::default(),
            secrets: Family::default(),
            database_up: gauge(&mut registry, "database_up", "1 while the database answers"),
            registry: Registry::default(),
        };
        for receiver in receivers {
            for outcome in [DELIVERED, FAILED, GIVEN_UP] {
                drop(
                    metrics
                        .attempts
                        .get_or_create(&labels(&receiver.name, "outcome", outcome)),
                );
            }
            for (state, _) in DeliveryState::ALL {
                let labels = labels(&receiver.name, "state", state);
                drop(metrics.waiting.get_or_create(&labels));
            }
            metrics.dropped(&receiver.name, 0);
            metrics.has_secret(&receiver.name, false);
        }
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("shortener_build", "The version that is running", build);
        registry.register(
            "webhook_attempts",
            "Attempts to deliver a message, by receiver and outcome; given_up is the last failure of a message",
            metrics.attempts.clone(),
        );
        registry.register(
            "webhook_deliveries",
            "Messages that were not delivered, by receiver and state; 10000 stands for more, too",
            metrics.waiting.clone(),
        );
        registry.register(
            "webhook_dropped",
            "Messages that were removed because too many were kept for the receiver",
            metrics.dropped.clone(),
        );
        registry.register(
            "webhook_secret",
            "1 while the receiver has a valid secret; without one it is sent nothing",
            metrics.secrets.clone(),
        );
        Self {
            registry,
            ..metrics
        }
    }

    pub(super) fn count(&self, receiver: &str, outcome: &'static str) {
        let labels = labels(receiver, "outcome", outcome);
        self.attempts.get_or_create(&labels).inc();
    }

    pub(super) fn has_secret(&self, receiver: &str, has: bool) {
        let labels = [("receiver", receiver.to_owned())];
        self.secrets.get_or_create(&labels).set(u32::from(has));
    }

    pub(super) fn dropped(&self, receiver: &str, number: u64) {
        let labels = [("receiver", receiver.to_owned())];
        self.dropped.get_or_create(&labels).inc_by(number);
    }

    pub(super) fn show(&self, receiver: &ReceiverState) {
        for (word, state) in DeliveryState::ALL {
            let labels = labels(&receiver.name, "state", word);
            let number = receiver.numbers.get(&state).copied();
            self.waiting
                .get_or_create(&labels)
                .set(number.unwrap_or_default());
        }
    }
}

fn labels(receiver: &str, label: &'static str, value: &'static str) -> ByOutcome {
    [("receiver", receiver.to_owned()), (label, value.to_owned())]
}
