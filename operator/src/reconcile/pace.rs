//! Pace of the reconciles that events cause: the first event of a stack counts at once, those that follow it closely
//! count together.
//!
//! The debounce of kube's controller is not used: it delays every edit, and it starts again with each event, so steady
//! events postpone a stack for ever. Here nothing waits longer than the rest, because the rest starts with a wake-up
//! and never again with an event.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use futures::{
    Stream, StreamExt,
    future::pending,
    stream::{self, BoxStream},
};
use tokio::time::{Instant, sleep_until};

/// The keys that rest, because they have just been passed on.
struct Pace<K> {
    rest: Duration,
    /// True for a key that was heard again during its rest.
    resting: HashMap<K, bool>,
    /// End of each rest, in order: all rests are equally long.
    ends: VecDeque<(Instant, K)>,
}

impl<K: Clone + Eq + Hash> Pace<K> {
    fn new(rest: Duration) -> Self {
        Self {
            rest,
            resting: HashMap::new(),
            ends: VecDeque::new(),
        }
    }

    /// Returns a key that is to be passed on now. One that rests is passed on at the end of its rest.
    fn hear(&mut self, key: K, now: Instant) -> Option<K> {
        if let Some(again) = self.resting.get_mut(&key) {
            *again = true;
            return None;
        }
        Some(self.pass(key, now))
    }

    /// Returns the end of the next rest.
    fn end(&self) -> Option<Instant> {
        self.ends.front().map(|(end, _)| *end)
    }

    /// Ends the next rest. Returns the key if it was heard again meanwhile.
    fn wake(&mut self, now: Instant) -> Option<K> {
        let (_, key) = self.ends.pop_front()?;
        let again = self.resting.remove(&key).unwrap_or_default();
        again.then(|| self.pass(key, now))
    }

    fn pass(&mut self, key: K, now: Instant) -> K {
        self.resting.insert(key.clone(), false);
        self.ends.push_back((now + self.rest, key.clone()));
        key
    }
}

/// Passes each key on at once, but not before `rest` is over since it was last passed on. A key that is heard several
/// times during its rest is passed on once, at the end of it.
pub(super) fn paced<K>(
    keys: impl Stream<Item = K> + Send + 'static,
    rest: Duration,
) -> BoxStream<'static, K>
where
    K: Clone + Eq + Hash + Send + 'static,
{
    let state = (keys.boxed(), Pace::new(rest));
    let passed = stream::unfold(state, |(mut keys, mut pace)| async move {
        let key = loop {
            let end = pace.end();
            let passed = tokio::select! {
                heard = keys.next() => pace.hear(heard?, Instant::now()),
                () = until(end) => pace.wake(Instant::now()),
            };
            if let Some(key) = passed {
                break key;
            }
        };
        Some((key, (keys, pace)))
    });
    passed.boxed()
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::{UnboundedSender, unbounded};
    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const REST: Duration = Duration::from_millis(100);

    struct PaceScene {
        told: UnboundedSender<&'static str>,
        passed: BoxStream<'static, &'static str>,
        start: Instant,
    }

    impl PaceScene {
        fn new() -> Self {
            let (told, keys) = unbounded();
            Self {
                told,
                passed: paced(keys, REST),
                start: Instant::now(),
            }
        }

        fn tell(&self, key: &'static str) {
            self.told.unbounded_send(key).unwrap();
        }

        /// Returns the next key and the milliseconds since the start.
        async fn next(&mut self) -> (&'static str, u128) {
            let key = self.passed.next().await.unwrap();
            (key, self.start.elapsed().as_millis())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_after_a_quiet_time_counts_at_once() {
        let mut scene = PaceScene::new();
        for second in 0..3 {
            scene.tell("a");
            assert_eq!(scene.next().await, ("a", second * 1000));
            sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_counts_at_its_start_and_once_after_the_rest() {
        let mut scene = PaceScene::new();
        for _ in 0..50 {
            scene.tell("a");
        }
        assert_eq!(scene.next().await, ("a", 0));
        assert_eq!(scene.next().await, ("a", 100));
        assert!(
            timeout(Duration::from_secs(60), scene.passed.next())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn steady_events_never_postpone_a_stack() {
        let mut scene = PaceScene::new();
        let told = scene.told.clone();
        tokio::spawn(async move {
            while told.unbounded_send("a").is_ok() {
                sleep(Duration::from_millis(10)).await;
            }
        });
        for time in [0, 100, 200, 300, 400] {
            assert_eq!(scene.next().await, ("a", time));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_stack_does_not_wait_for_the_rest_of_another() {
        let mut scene = PaceScene::new();
        scene.tell("a");
        assert_eq!(scene.next().await, ("a", 0));
        scene.tell("a");
        scene.tell("b");
        assert_eq!(scene.next().await, ("b", 0));
        assert_eq!(scene.next().await, ("a", 100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stack_that_rested_is_forgotten() {
        let mut pace = Pace::new(REST);
        assert_eq!(pace.hear("a", Instant::now()), Some("a"));
        advance(REST).await;
        assert_eq!(pace.wake(Instant::now()), None);
        assert!(pace.resting.is_empty() && pace.ends.is_empty());
    }
}
