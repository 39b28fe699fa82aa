//! The known state of the stacks' queues: the brokers to query, their last reports, and the state that the status
//! shows.
//!
//! Reconciles set the brokers to query, [`monitor`] queries them, and a stack is due for a reconcile when its status
//! should change. The rate of these changes is decided here and nowhere else: a change of the depth alone updates the
//! status at most every 30 s, and a broker counts as unreachable only after several failures in a row.

pub mod monitor;

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use shortener_operator_core::model::{
    credentials::{PASSWORD_KEY, USERNAME_KEY},
    metadata::{Component, component_name},
    queue_state::{QueueState, Report},
    stack::ValidatedStack,
    topology::MANAGEMENT_PORT,
};
use tokio::{sync::Notify, time::Instant};

use crate::rabbitmq::broker::Login;

/// Minimum time between two changed depths in the status.
const SHOW_EVERY: Duration = Duration::from_secs(30);
/// Failures in a row after which a broker counts as unreachable.
const FAILURE_THRESHOLD: u32 = 3;
/// Twice the maximum age of RabbitMQ's statistics, which it collects every 5 s.
const STATISTICS_LAG: Duration = Duration::from_secs(10);

/// Namespace and name of a stack.
pub type StackKey = (String, String);

/// The broker to query about a stack's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Address of the management API.
    pub url: String,
    /// Credentials for the management API.
    pub login: Login,
    /// Delivery limit to enforce; `None` while the stack is paused.
    pub delivery_limit: Option<i32>,
    /// True when the queue is deleted once it is empty.
    pub draining: bool,
}

impl Target {
    /// Returns the broker of a stack's queue, if the operator manages that broker and the stack is not stopped.
    pub fn of(stack: &ValidatedStack, paused: bool) -> Option<Self> {
        let queue = stack.queue.as_ref().filter(|_| !stack.stopped)?;
        let broker = queue.store.managed()?;
        let identity = &stack.identity;
        let host = component_name(&identity.name, Component::Rabbitmq);
        let entry = |key: &str| {
            let value = broker.credentials.data.get(key);
            value.map(|value| String::from_utf8_lossy(&value.0).into_owned())
        };
        Some(Self {
            url: format!("http://{host}.{}.svc:{MANAGEMENT_PORT}", identity.namespace),
            login: Login {
                username: entry(USERNAME_KEY)?,
                password: entry(PASSWORD_KEY)?,
            },
            delivery_limit: (!paused).then_some(queue.delivery_limit),
            draining: queue.draining.is_some(),
        })
    }
}

struct Record {
    target: Target,
    /// True when the broker is to be queried before the next round.
    due: bool,
    failures: u32,
    seen: QueueState,
    /// Time of the last report that the status shows.
    shown: Option<Instant>,
    /// Time of the last report, if the queue was empty in it.
    empty: Option<Instant>,
    /// Time since which no client can publish any more.
    closed: Option<Instant>,
}

/// The known state of the stacks' queues.
#[derive(Default)]
pub struct Queues {
    records: Mutex<HashMap<StackKey, Record>>,
    drained_stacks: Mutex<HashSet<StackKey>>,
    listeners: Mutex<Vec<UnboundedSender<StackKey>>>,
    changed: Notify,
}

impl Queues {
    /// Sets the broker to query about a stack's queue; `None` if there is none.
    pub fn target(&self, stack: &StackKey, target: Option<Target>) {
        let mut records = self.records();
        let Some(target) = target else {
            records.remove(stack);
            return;
        };
        match records.get_mut(stack) {
            Some(record) if record.target == target => return,
            Some(record) => {
                record.target = target;
                record.due = true;
            }
            None => {
                records.insert(stack.clone(), Record::new(target));
            }
        }
        drop(records);
        self.changed.notify_one();
    }

    /// Returns the brokers to query now: all of them, or only those that are new or have changed.
    pub fn targets(&self, all: bool) -> Vec<(StackKey, Target)> {
        let mut records = self.records();
        let due = records.iter_mut().filter_map(|(stack, record)| {
            let due = std::mem::take(&mut record.due) || all;
            due.then(|| (stack.clone(), record.target.clone()))
        });
        due.collect()
    }

    /// Waits until a broker is new or has changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Records the report of a broker, or the reason for which there is none, and notifies the listeners if the
    /// status should change.
    pub fn heard(&self, stack: &StackKey, said: Result<Report, String>) {
        let now = Instant::now();
        let follow = self
            .records()
            .get_mut(stack)
            .is_some_and(|record| record.hear(said, now));
        if follow {
            self.listeners()
                .retain(|listener| listener.unbounded_send(stack.clone()).is_ok());
        }
    }

    /// Returns the state of a stack's queue that the status shows.
    pub fn seen(&self, stack: &StackKey) -> QueueState {
        self.records()
            .get(stack)
            .map(|record| record.seen.clone())
            .unwrap_or_default()
    }

    /// Removes the state of a deleted stack.
    pub fn forget(&self, stack: &StackKey) {
        self.target(stack, None);
        self.keep(stack);
    }

    /// Marks a queue as wanted, so that an earlier drain does not count any more.
    pub fn keep(&self, stack: &StackKey) {
        self.drained_stacks().remove(stack);
    }

    /// Returns true when a queue is drained. The result stays true until the queue is wanted again, because its
    /// objects remain visible for a while after their deletion. `closed` is true when no client can publish any more;
    /// a report that the queue is empty counts only if it is from after that moment, and late enough that its
    /// statistics are not older.
    pub fn drained(&self, stack: &StackKey, closed: bool) -> bool {
        if self.drained_stacks().contains(stack) {
            return true;
        }
        let mut records = self.records();
        let Some(record) = records.get_mut(stack) else {
            return false;
        };
        record.closed = closed.then(|| record.closed.unwrap_or_else(Instant::now));
        let drained = record
            .closed
            .zip(record.empty)
            .is_some_and(|(closed, empty)| empty >= closed + STATISTICS_LAG);
        if drained {
            self.drained_stacks().insert(stack.clone());
        }
        drained
    }

    /// Returns a stream of the stacks whose status should follow their queue, from now on.
    pub fn listen(&self) -> UnboundedReceiver<StackKey> {
        let (sender, receiver) = unbounded();
        self.listeners().push(sender);
        receiver
    }

    fn records(&self) -> MutexGuard<'_, HashMap<StackKey, Record>> {
        // A record that was only partly updated is updated again in the next round.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drained_stacks(&self) -> MutexGuard<'_, HashSet<StackKey>> {
        self.drained_stacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<UnboundedSender<StackKey>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn new(target: Target) -> Self {
        Self {
            target,
            due: true,
            failures: 0,
            seen: QueueState::Unknown,
            shown: None,
            empty: None,
            closed: None,
        }
    }

    /// Records a report or a failure. Returns true when the status should change.
    fn hear(&mut self, said: Result<Report, String>, now: Instant) -> bool {
        let report = match said {
            Ok(report) => report,
            Err(why) => {
                self.empty = None;
                self.failures = self.failures.saturating_add(1);
                if self.failures < FAILURE_THRESHOLD
                    || matches!(self.seen, QueueState::Unreachable(_))
                {
                    return false;
                }
                self.seen = QueueState::Unreachable(why);
                return true;
            }
        };
        self.failures = 0;
        let empty = report.depth.is_some_and(|depth| depth.total() == 0);
        self.empty = empty.then_some(now);
        let follow = self.may_show(&report, now);
        if follow {
            self.shown = Some(now);
            let depth = report.depth.or(self.seen.depth());
            self.seen = QueueState::Report(Report { depth, ..report });
        }
        follow || (empty && self.target.draining)
    }

    fn may_show(&self, report: &Report, now: Instant) -> bool {
        let QueueState::Report(seen) = &self.seen else {
            return true;
        };
        // A broker that has just started has no statistics, so the last known depth stays.
        let known = report.depth.or(seen.depth);
        let rested = self.shown.is_none_or(|shown| now >= shown + SHOW_EVERY);
        let due = rested || seen.depth.is_none();
        seen.alarm != report.alarm || (known != seen.depth && due)
    }
}

#[cfg(test)]
mod tests {
    use shortener_operator_core::model::queue_state::Depth;

    use super::*;

    const STACK: (&str, &str) = ("links", "acme");

    fn stack() -> StackKey {
        (STACK.0.to_owned(), STACK.1.to_owned())
    }

    fn target(draining: bool) -> Target {
        Target {
            url: "http://acme-rabbitmq.links:15672".to_owned(),
            login: Login {
                username: "shortener".to_owned(),
                password: "s3cret".to_owned(),
            },
            delivery_limit: Some(5),
            draining,
        }
    }

    fn holding(ready: i64) -> Result<Report, String> {
        Ok(Report {
            depth: Some(Depth { ready, unacked: 0 }),
            alarm: None,
        })
    }

    fn silent() -> Result<Report, String> {
        Err("connection refused".to_owned())
    }

    struct Scene {
        queues: Queues,
        told: UnboundedReceiver<StackKey>,
    }

    impl Scene {
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
            self.queues.seen(&stack()).depth().map(|depth| depth.ready)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_depth_shows_at_once_and_then_every_30_s_at_most() {
        let mut scene = Scene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        assert!(!scene.hears(10, holding(2)).await);
        assert!(!scene.hears(10, holding(3)).await);
        assert_eq!(scene.ready(), Some(1));
        assert!(scene.hears(10, holding(4)).await);
        assert_eq!(scene.ready(), Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resting_queue_is_not_worth_a_word() {
        let mut scene = Scene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        for _ in 0..100 {
            assert!(!scene.hears(10, holding(1)).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_is_silent_after_three_failures_in_a_row() {
        let mut scene = Scene::new(false);
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
        let mut scene = Scene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        let alarmed = Ok(Report {
            alarm: Some("disk".to_owned()),
            ..holding(1).unwrap()
        });
        assert!(scene.hears(1, alarmed).await);
        assert!(scene.hears(1, holding(1)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarted_broker_without_figures_keeps_the_last_depth() {
        let mut scene = Scene::new(false);
        assert!(scene.hears(0, holding(1)).await);
        assert!(!scene.hears(60, Ok(Report::default())).await);
        assert_eq!(scene.ready(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_drained_when_it_is_empty_well_after_the_last_publisher() {
        let mut scene = Scene::new(true);
        assert!(scene.hears(0, holding(0)).await);
        assert!(!scene.queues.drained(&stack(), false), "the app publishes");
        assert!(!scene.queues.drained(&stack(), true), "empty before that");
        assert!(scene.hears(5, holding(0)).await);
        assert!(!scene.queues.drained(&stack(), true), "old figures");
        assert!(!scene.hears(5, holding(2)).await);
        assert!(!scene.queues.drained(&stack(), true), "two are left");
        assert!(scene.hears(10, holding(0)).await);
        assert!(scene.queues.drained(&stack(), true));
        scene.queues.target(&stack(), None);
        assert!(scene.queues.drained(&stack(), true), "it stays so");
        scene.queues.keep(&stack());
        assert!(!scene.queues.drained(&stack(), true), "it is wanted again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_publisher_that_returns_starts_the_wait_anew() {
        let mut scene = Scene::new(true);
        assert!(!scene.queues.drained(&stack(), true));
        assert!(scene.hears(20, holding(0)).await);
        assert!(!scene.queues.drained(&stack(), false));
        assert!(!scene.queues.drained(&stack(), true));
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
}
