//! The decisions of a run, which follow from its seed.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use shortener_e2e::{Provider, Space, base_spec, every_profile, merge};

const PROFILES: [&str; 4] = ["caching", "queue", "observability", "vector"];
const PROVIDERS: [Provider; 3] = [
    Provider::IngressNginx,
    Provider::Standalone,
    Provider::GatewayApi,
];

/// The settings of a stack that are edited.
#[derive(Clone, Debug)]
pub struct Shape {
    provider: Provider,
    profiles: Vec<&'static str>,
    app: usize,
    gateway: usize,
    workers: usize,
    deletes: bool,
}

impl Shape {
    /// Returns the same settings under the policy `Delete`.
    pub fn deleting(self) -> Self {
        Self {
            deletes: true,
            ..self
        }
    }

    /// Returns the spec of a stopped stack with these settings.
    pub fn spec(&self, space: &Space) -> Value {
        let mut spec = base_spec(space, self.provider);
        merge(&mut spec, every_profile());
        let own = json!({"external": null, "managed": {"storage": "512Mi"}});
        merge(
            &mut spec,
            json!({
                "stopped": true,
                "profiles": self.profiles,
                "app": {"replicas": self.app},
                "gateway": {"replicas": self.gateway},
                "workers": {"replicas": self.workers},
                "observability": {"backend": own},
                "deletionPolicy": if self.deletes { "Delete" } else { "Retain" },
            }),
        );
        spec
    }
}

/// Something that happens to a stack.
#[derive(Debug)]
pub enum Disturbance {
    /// The stack gets other settings.
    Edit(Shape),
    /// So many children are deleted.
    DeleteChildren(usize),
    /// The stack is deleted, and another one of its name is made at once.
    Replace(Shape),
}

/// The source of the decisions.
pub struct Decisions(fastrand::Rng);

impl Decisions {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns a number of a range.
    pub fn number(&mut self, range: RangeInclusive<usize>) -> usize {
        self.0.usize(range)
    }

    /// Returns the settings of a stack.
    pub fn shape(&mut self) -> Shape {
        let provider = PROVIDERS[self.0.usize(..PROVIDERS.len())];
        let mut profiles = PROFILES.to_vec();
        profiles.retain(|_| self.0.bool());
        Shape {
            provider,
            profiles,
            app: self.number(1..=3),
            gateway: self.number(1..=3),
            workers: self.number(0..=3),
            deletes: self.0.bool(),
        }
    }

    /// Returns what happens next.
    pub fn disturbance(&mut self) -> Disturbance {
        match self.number(0..=9) {
            0..=4 => Disturbance::Edit(self.shape()),
            5..=7 => Disturbance::DeleteChildren(self.number(1..=5)),
            _ => Disturbance::Replace(self.shape()),
        }
    }

    /// Brings items into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }
}
