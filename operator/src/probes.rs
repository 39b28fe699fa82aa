//! Probes of the stacks: what is tried with each again and again, and what is known from that.
//!
//! Reconciles name what is to be tried, and a stack is due for a reconcile when the result flips. The known results stay
//! in memory, and the status remembers them across restarts, so a probe with the same result as before writes nothing.
//! Probes run in the leader only and send no requests to the API server.

pub mod end_to_end;
pub mod sole_entry;
pub mod stores;

use std::{future::pending, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use shortener_operator_core::model::{
    finding::{Finding, ProbeResult},
    metadata::StackKey,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use crate::registry::Registry;

/// Time until a result that is in doubt is checked.
const SOON: Duration = Duration::from_secs(10);
/// Longest time until a bad result is checked again, so that its end shows soon.
const AGAIN: Duration = Duration::from_secs(30);
/// Range of the factor of the time between two probes, so that stacks that started together do not stay together.
const JITTER: std::ops::Range<f64> = 0.8..1.2;
/// Maximum number of probes of a kind that run at the same time.
const CONCURRENT: usize = 16;

/// An attempt of a probe at a stack.
pub trait Subject: Clone + PartialEq {
    /// The result of one probe.
    type Answer: ProbeResult + Clone;

    /// Returns the time between two probes.
    fn interval(&self) -> Duration;
}

/// The next probe of one stack, and the finding of the earlier ones.
pub struct Probe<S: Subject> {
    subject: S,
    /// Time of the next probe; `None` while one runs.
    next: Option<Instant>,
    finding: Finding<S::Answer>,
}

/// The probes of one kind of all stacks.
pub type Probes<S> = Registry<Probe<S>>;

impl<S: Subject> Probes<S> {
    /// Sets what is tried with a stack; `None` for nothing. What is new is tried at once.
    pub fn follow(&self, stack: &StackKey, subject: Option<S>) {
        self.follow_from(stack, subject, || None);
    }

    /// Does the same as [`Self::follow`]. `reported` returns the result that the status of the stack shows, which counts for a
    /// stack that is new here until a probe says something else.
    pub fn follow_from(
        &self,
        stack: &StackKey,
        subject: Option<S>,
        reported: impl FnOnce() -> Option<S::Answer>,
    ) {
        let Some(subject) = subject else {
            self.forget(stack);
            return;
        };
        let mut probes = self.entries();
        let next = Some(Instant::now());
        match probes.get_mut(stack) {
            Some(probe) if probe.subject == subject => return,
            Some(probe) => {
                probe.subject = subject;
                probe.next = next;
            }
            None => {
                let finding = Finding::remembering(reported());
                let probe = Probe {
                    subject,
                    next,
                    finding,
                };
                probes.insert(stack.clone(), probe);
            }
        }
        drop(probes);
        self.wake();
    }

    /// Calls a function that records a metric of a stack, unless the stack was forgotten meanwhile.
    pub fn while_followed(&self, stack: &StackKey, record: impl FnOnce()) {
        self.record_if(stack, |_| true, record);
    }

    /// Returns what is tried with a stack.
    pub fn subject(&self, stack: &StackKey) -> Option<S> {
        self.read(stack, |probe| probe.subject.clone())
    }

    /// Returns the known result of a stack; `None` until there is one.
    pub fn known(&self, stack: &StackKey) -> Option<S::Answer> {
        self.read(stack, |probe| probe.finding.known().cloned())?
    }

    /// Probes the stacks forever. `attempt` returns the result, or `None` if the probe proved nothing.
    pub async fn run<F>(&self, attempt: impl Fn(StackKey, S) -> F)
    where
        F: Future<Output = Option<S::Answer>>,
    {
        let slots = Semaphore::new(CONCURRENT);
        let mut running = FuturesUnordered::new();
        loop {
            let (due, next) = self.due(Instant::now());
            for (stack, subject) in due {
                let (slots, answer) = (&slots, attempt(stack.clone(), subject.clone()));
                running.push(async move {
                    let _slot = slots.acquire().await;
                    (stack, subject, answer.await)
                });
            }
            let rest = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = rest => {}
                () = self.woken() => {}
                Some((stack, subject, answer)) = running.next() => {
                    self.heard(&stack, &subject, answer);
                }
            }
        }
    }

    /// Returns the probes that are due, and the time of the next one.
    fn due(&self, now: Instant) -> (Vec<(StackKey, S)>, Option<Instant>) {
        let mut probes = self.entries();
        let mut due = Vec::new();
        for (stack, probe) in probes.iter_mut() {
            if probe.next.is_some_and(|next| next <= now) {
                probe.next = None;
                due.push((stack.clone(), probe.subject.clone()));
            }
        }
        let next = probes.values().filter_map(|probe| probe.next).min();
        (due, next)
    }

    /// Records a result, and notifies the listeners if the status should change.
    fn heard(&self, stack: &StackKey, subject: &S, answer: Option<S::Answer>) {
        self.hear(stack, |probe| {
            // A result that arrives after something else is to be tried counts no more.
            if probe.subject != *subject {
                return false;
            }
            let flips = probe.finding.hear(answer);
            let is_bad = |known: &S::Answer| !known.is_good();
            let wait = if probe.finding.is_in_doubt() {
                SOON
            } else if probe.finding.known().is_some_and(is_bad) {
                subject.interval().min(AGAIN)
            } else {
                subject.interval()
            };
            let wait = wait.mul_f64(rand::random_range(JITTER));
            probe.next = Some(Instant::now() + wait);
            flips
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use shortener_operator_core::model::measured::Enforcement;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    /// A subject whose probe always has this result.
    #[derive(Clone, PartialEq)]
    struct Fixed(Option<Enforcement>);

    impl Subject for Fixed {
        type Answer = Enforcement;

        fn interval(&self) -> Duration {
            Duration::from_secs(300)
        }
    }

    fn stack() -> StackKey {
        ("links".to_owned(), "acme".to_owned())
    }

    type Times = Arc<Mutex<Vec<Instant>>>;

    /// Starts the probes; returns them with the times at which one ran.
    fn started() -> (Arc<Probes<Fixed>>, Times, AbortOnDropHandle<()>) {
        let (probes, times) = (Arc::<Probes<Fixed>>::default(), Arc::default());
        let (own, noted) = (probes.clone(), Times::clone(&times));
        let task = tokio::spawn(async move {
            let attempt = |_, Fixed(answer)| {
                noted.lock().push(Instant::now());
                async move { answer }
            };
            own.run(attempt).await;
        });
        (probes, times, AbortOnDropHandle::new(task))
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_stays_wakes_once_and_is_checked_at_its_interval() {
        let (probes, times, _task) = started();
        let mut woken = probes.listen();
        let begin = Instant::now();
        probes.follow(&stack(), Some(Fixed(Some(Enforcement::Enforced))));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(probes.known(&stack()), Some(Enforcement::Enforced));
        assert!(woken.try_recv().is_ok());
        assert!(woken.try_recv().is_err(), "no result has flipped");
        let times = times.lock().clone();
        assert_eq!(times[0], begin, "what is new is tried at once");
        assert!((10..=16).contains(&times.len()), "{}", times.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_doubtful_result_is_checked_soon_and_counts_then() {
        let (probes, times, _task) = started();
        probes.follow(&stack(), Some(Fixed(Some(Enforcement::NotEnforced))));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(probes.known(&stack()), None);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(probes.known(&stack()), Some(Enforcement::NotEnforced));
        assert_eq!(times.lock().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_replaces_a_subject_is_tried_at_once_and_nothing_is_after_it_is_gone() {
        let (probes, times, _task) = started();
        let enforced = Fixed(Some(Enforcement::Enforced));
        for (subject, tried) in [
            (Some(Fixed(None)), 1),
            (Some(Fixed(None)), 1),
            (Some(enforced), 2),
        ] {
            probes.follow(&stack(), subject);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(times.lock().len(), tried);
        }
        probes.follow(&stack(), None);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((times.lock().len(), probes.known(&stack())), (2, None));
    }
}
