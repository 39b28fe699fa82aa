//! The known state of the stacks' queues: the brokers to query, their last reports, and the state that the status
//! shows.
//!
//! Reconciles set the brokers to query, [`monitor`] queries them, and a stack is due for a reconcile when its status
//! should change. [`QueueRecord`] limits the rate of these changes: a change of the depth alone updates the status at
//! most every 30 s, and a broker counts as unreachable only after several failures in a row.

pub mod monitor;

use std::time::Duration;

use shortener_operator_core::{
    api::WorkersAutoscaling,
    model::{
        metadata::{Component, StackIdentity, StackKey, component_name},
        queue_record::QueueRecord,
        queue_state::Report,
        rabbitmq_cluster,
        stack::{Autoscaled, Drain, ValidatedStack},
        topology::{MANAGEMENT_PORT, METRICS_PORT, QueueLimits},
        worker_demand::WorkerCount,
    },
};
use tokio::time::Instant;

use crate::{rabbitmq::broker::Login, registry::Registry};

/// The broker to query about a stack's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Address of the management API.
    pub url: String,
    /// Addresses of the metrics of each member.
    pub metrics_urls: Vec<String>,
    /// Credentials of the operator's user.
    pub login: Login,
    pub limits: QueueLimits,
    /// Limits of the number of workers, if it follows the queue.
    pub autoscaling: Option<WorkersAutoscaling>,
    /// True while the stack is paused: the limits are not enforced, and the workers stay.
    pub paused: bool,
    /// True when the queue is deleted once it is empty.
    pub draining: bool,
}

impl Target {
    /// Returns the broker of a stack's queue, if that is the stack's own one and the stack is not stopped.
    pub fn of(stack: &ValidatedStack, paused: bool) -> Option<Self> {
        let queue = stack.queue.as_ref().filter(|_| !stack.stopped)?;
        let user = queue.operator_user()?;
        let StackIdentity {
            name, namespace, ..
        } = &stack.identity;
        let (host, members) = match &stack.broker_cluster {
            Some(cluster) => (
                rabbitmq_cluster::name(name),
                rabbitmq_cluster::hosts(name, cluster.running).collect(),
            ),
            None => {
                let host = component_name(name, Component::Rabbitmq);
                (host.clone(), vec![host])
            }
        };
        let autoscaling = queue.workers.autoscaling.as_ref();
        let url = |host: String, port: u16| format!("http://{host}.{namespace}.svc:{port}");
        Some(Self {
            url: url(host, MANAGEMENT_PORT),
            metrics_urls: members
                .into_iter()
                .map(|member| url(member, METRICS_PORT))
                .collect(),
            login: Login::of(&user),
            limits: queue.limits,
            autoscaling: autoscaling.map(|Autoscaled { limits, .. }| *limits),
            paused,
            draining: queue.draining.is_some(),
        })
    }
}

/// The broker to query for a stack, and the reports about its queue.
pub struct Entry {
    /// Broker to query, if there is one.
    target: Option<Target>,
    /// True when the broker is to be queried before the next round.
    due: bool,
    record: QueueRecord,
    /// The moment that all times of the record count from.
    start: Instant,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            target: None,
            due: false,
            record: QueueRecord::default(),
            start: Instant::now(),
        }
    }
}

impl Entry {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the limits of the number of workers, if it follows the queue now.
    fn limits_to_follow(&self) -> Option<&WorkersAutoscaling> {
        let target = self.target.as_ref().filter(|target| !target.paused);
        target?.autoscaling.as_ref()
    }

    /// Returns true when it says no more than a missing entry.
    fn is_blank(&self) -> bool {
        self.target.is_none() && self.record == QueueRecord::default()
    }
}

/// The known state of the stacks' queues.
pub type Queues = Registry<Entry>;

impl Queues {
    /// Records the decision of a reconcile about a stack's queue.
    pub fn decided(&self, stack: &StackKey, drain: Drain) {
        let mut entries = self.entries();
        let entry = entries.entry(stack.clone()).or_default();
        let now = entry.now();
        entry.record.decided(drain, now);
    }

    /// Records the number of a stack's workers that was applied; `None` if the spec states it.
    pub fn scaled(&self, stack: &StackKey, count: Option<WorkerCount>) {
        if let Some(entry) = self.entries().get_mut(stack) {
            entry.record.scaled(count);
        }
    }

    /// Returns true when a stack has more workers than it needs, so that it matters which of them process a job.
    pub fn has_too_many_workers(&self, stack: &StackKey) -> bool {
        let has = self.read(stack, |entry| {
            let limits = entry.limits_to_follow();
            limits.is_some_and(|limits| entry.record.demand().has_too_many(limits))
        });
        has.unwrap_or_default()
    }

    /// Sets the broker to query about a stack's queue; `None` if there is none.
    pub fn target(&self, stack: &StackKey, target: Option<Target>) {
        let mut entries = self.entries();
        let entry = entries.entry(stack.clone()).or_default();
        if target.is_none() {
            entry.record.forget_broker();
        }
        let is_new = entry.target != target;
        if is_new {
            entry.due = target.is_some();
            entry.target = target;
        }
        // Most stacks of a cluster may have no queue.
        if entry.is_blank() {
            entries.remove(stack);
        }
        drop(entries);
        if is_new {
            self.wake();
        }
    }

    /// Stops the writes to the broker of a stack until [`Self::target`] is called. The broker is still queried.
    pub fn pause(&self, stack: &StackKey) {
        let mut entries = self.entries();
        let target = entries.get_mut(stack).and_then(|it| it.target.as_mut());
        if let Some(target) = target {
            target.paused = true;
        }
    }

    /// Returns the brokers to query now: all of them, or only those that are new or have changed.
    pub fn targets(&self, all: bool) -> Vec<(StackKey, Target)> {
        let mut entries = self.entries();
        let due = entries.iter_mut().filter_map(|(stack, entry)| {
            let due = std::mem::take(&mut entry.due) || all;
            let target = entry.target.as_ref().filter(|_| due)?;
            Some((stack.clone(), target.clone()))
        });
        due.collect()
    }

    /// Records the report of a broker, or the reason for which there is none, and notifies the listeners if the
    /// status or the number of workers should change or a drain may be over.
    pub fn heard(&self, stack: &StackKey, said: Result<Report, String>) {
        self.hear(stack, |entry| {
            let now = entry.now();
            // A report that arrives after the broker was dropped counts no more.
            let Some(target) = &entry.target else {
                return false;
            };
            let shown = entry.record.hear(said, now);
            let limits = entry.limits_to_follow();
            shown
                || (target.draining && entry.record.is_empty())
                || limits.is_some_and(|limits| entry.record.demand().is_due(limits))
        });
    }

    /// Returns the known state of a stack's queue.
    pub fn record(&self, stack: &StackKey) -> QueueRecord {
        let record = self.read(stack, |entry| entry.record.clone());
        record.unwrap_or_default()
    }

    /// Calls a function that records a metric of a stack's queue, unless its broker is not to be queried any more.
    pub fn while_asked(&self, stack: &StackKey, record: impl FnOnce()) {
        self.record_if(stack, |entry| entry.target.is_some(), record);
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::UnboundedReceiver;
    use shortener_operator_core::model::{
        queue_state::{DeadLetterRoom, Depth},
        stack::Draining,
    };

    use super::*;

    const STACK: (&str, &str) = ("links", "acme");

    fn stack() -> StackKey {
        (STACK.0.to_owned(), STACK.1.to_owned())
    }

    fn target(draining: bool) -> Target {
        Target {
            url: "http://acme-rabbitmq.links:15672".to_owned(),
            metrics_urls: vec!["http://acme-rabbitmq.links:15692".to_owned()],
            login: Login {
                username: "shortener-operator".to_owned(),
                password: "s3cret".to_owned(),
            },
            limits: QueueLimits {
                deliveries: 5,
                dead_letters: 10_000,
                dead_letter_bytes: 64 << 20,
            },
            autoscaling: None,
            paused: false,
            draining,
        }
    }

    fn holding(ready: i64) -> Result<Report, String> {
        Ok(Report {
            depth: Some(Depth { ready, unacked: 0 }),
            ..Report::default()
        })
    }

    fn silent() -> Result<Report, String> {
        Err("connection refused".to_owned())
    }

    struct QueueScene {
        queues: Queues,
        told: UnboundedReceiver<StackKey>,
    }

    impl QueueScene {
        fn new(draining: bool) -> Self {
            let queues = Queues::default();
            queues.target(&stack(), Some(target(draining)));
            let told = queues.listen();
            Self { queues, told }
        }

        /// Records a report or a failure, `after` seconds later. Returns true when the status should change.
        async fn hears(&mut self, after: u64, said: Result<Report, String>) -> bool {
            tokio::time::sleep(Duration::from_secs(after)).await;
            self.queues.heard(&stack(), said);
            self.told.try_recv().is_ok()
        }

        fn ready(&self) -> Option<i64> {
            let record = self.queues.record(&stack());
            record.seen().depth().map(|depth| depth.ready)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_depth_shows_at_once_and_then_every_30_s_at_most() {
        let mut scene = QueueScene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        assert!(!scene.hears(10, holding(2)).await);
        assert!(!scene.hears(10, holding(3)).await);
        assert_eq!(scene.ready(), Some(1));
        assert!(scene.hears(10, holding(4)).await);
        assert_eq!(scene.ready(), Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resting_queue_is_not_worth_a_word() {
        let mut scene = QueueScene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        for _ in 0..100 {
            assert!(!scene.hears(10, holding(1)).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_is_silent_after_three_failures_in_a_row() {
        let mut scene = QueueScene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        assert!(!scene.hears(10, silent()).await);
        assert!(!scene.hears(10, silent()).await);
        assert!(!scene.hears(10, holding(1)).await, "it was a hiccup");
        for expected in [false, false, true, false] {
            assert_eq!(scene.hears(10, silent()).await, expected);
        }
        assert_eq!(scene.ready(), None);
        assert!(scene.hears(10, holding(1)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_shows_at_once() {
        let mut scene = QueueScene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        let alarmed = Ok(Report {
            alarm: Some("disk".to_owned()),
            ..holding(1).unwrap()
        });
        assert!(scene.hears(1, alarmed).await);
        assert!(scene.hears(1, holding(1)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn little_room_for_dead_letters_shows_every_30_s_at_most() {
        let mut scene = QueueScene::new(false);
        let with_room = |room| {
            Ok(Report {
                room: Some(room),
                ..holding(1).unwrap()
            })
        };
        assert!(scene.hears(0, with_room(DeadLetterRoom::Enough)).await);
        assert!(!scene.hears(10, with_room(DeadLetterRoom::Little)).await);
        assert!(scene.hears(20, with_room(DeadLetterRoom::Little)).await);
        assert!(!scene.hears(30, holding(1)).await, "it is known already");
        let record = scene.queues.record(&stack());
        assert_eq!(record.seen().room(), Some(DeadLetterRoom::Little));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarted_broker_without_figures_keeps_the_last_depth() {
        let mut scene = QueueScene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        assert!(!scene.hears(60, Ok(Report::default())).await);
        assert_eq!(scene.ready(), Some(1));
    }

    #[test]
    fn only_what_is_new_is_asked_before_the_next_round() {
        let queues = Queues::default();
        queues.target(&stack(), Some(target(false)));
        assert_eq!(queues.targets(false).len(), 1);
        queues.target(&stack(), Some(target(false)));
        assert_eq!(queues.targets(false).len(), 0);
        assert_eq!(queues.targets(true).len(), 1);
        queues.target(&stack(), None);
        assert_eq!(queues.targets(true).len(), 0);
    }

    #[test]
    fn a_stack_without_a_queue_is_remembered_only_while_it_drains_or_has_drained_one() {
        let draining = Drain::Draining(Draining {
            closed: false,
            left: None,
            workers: true,
        });
        for (drain, remembered) in [
            (Drain::Wanted, 0),
            (draining, 1),
            (Drain::Drained, 1),
            (Drain::Skipped, 0),
        ] {
            let queues = Queues::default();
            queues.decided(&stack(), drain);
            queues.target(&stack(), None);
            assert_eq!(queues.entries().len(), remembered, "{drain:?}");
        }
    }
}
