//! Look-ups by key that wait at the same time are one question to a store, and a key is asked for once at a time.
//!
//! A bounded number of questions is in flight. Look-ups that come meanwhile wait, and the next question asks for all of
//! their keys, up to a limit: a question costs both sides far more than a key in it. No look-up gets the answer of a
//! question that began before it, because the value may have been created or removed in between.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::Future,
    hash::Hash,
    sync::{Arc, atomic::AtomicU32},
};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

use crate::telemetry::span::CurrentSpan;

/// A question to a store about several keys.
pub trait Question: Send + Sync + 'static {
    /// The key that a look-up asks for.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The answer about a key.
    type Answer: Clone + Send + 'static;

    /// Asks about these keys, and returns the answers in the same order. It ends by itself within a bounded time.
    fn ask(&self, keys: &[Self::Key]) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// The limits of a [`Batcher`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of questions in flight.
    pub questions: usize,
    /// The number of keys in one question.
    pub keys: usize,
    /// The number of look-ups that wait for a question; further ones are refused.
    pub waiting: usize,
}

/// Why a look-up has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Too many look-ups wait already.
    #[error("too many look-ups wait")]
    Full,
    /// The question ended without an answer, because the program ends.
    #[error("the question ended without an answer")]
    Ended,
}

/// The look-ups of one question.
pub struct Batcher<Q: Question> {
    question: Q,
    limits: Limits,
    waiting: Gauge<u32, AtomicU32>,
    state: Mutex<BatcherState<Q>>,
}

struct BatcherState<Q: Question> {
    /// The keys that wait for a question, in the order of their first look-up.
    keys: VecDeque<Q::Key>,
    /// The look-ups that wait, by their keys.
    look_ups: HashMap<Q::Key, Waiting<Q::Answer>>,
    /// The number of look-ups that wait.
    number: usize,
    /// The keys in the questions in flight.
    asked: HashSet<Q::Key>,
    /// The number of questions in flight, with the one that is about to begin.
    questions: usize,
    /// True while a question is about to begin, which will take the keys that wait then.
    begins: bool,
}

/// The look-ups of one key.
struct Waiting<A> {
    /// The span of the first one, under which the question is asked.
    span: CurrentSpan,
    senders: Vec<oneshot::Sender<A>>,
}

/// The keys of a question, with their look-ups.
type Taken<Q> = Vec<(<Q as Question>::Key, Waiting<<Q as Question>::Answer>)>;

impl<Q: Question> Batcher<Q> {
    /// Returns the look-ups of this question. The gauge shows how many wait.
    pub fn new(question: Q, limits: Limits, waiting: Gauge<u32, AtomicU32>) -> Self {
        Self {
            question,
            limits,
            waiting,
            state: Mutex::new(BatcherState {
                keys: VecDeque::new(),
                look_ups: HashMap::new(),
                number: 0,
                asked: HashSet::new(),
                questions: 0,
                begins: false,
            }),
        }
    }

    /// Asks about a key, together with the look-ups that wait at the same time.
    ///
    /// # Errors
    /// Fails if too many look-ups wait, or if the program ends.
    pub async fn look_up(self: &Arc<Self>, key: Q::Key) -> Result<Q::Answer, NoAnswer> {
        let answered = {
            let mut state = self.state.lock();
            if state.number >= self.limits.waiting {
                return Err(NoAnswer::Full);
            }
            self.waiting.inc();
            let answered = state.add(key);
            self.begin_another(&mut state);
            answered
        };
        answered.await.map_err(|_| NoAnswer::Ended)
    }

    /// Starts a task that asks for what waits, unless one is about to begin or enough of them are in flight.
    fn begin_another(self: &Arc<Self>, state: &mut BatcherState<Q>) {
        if !state.begins && state.questions < self.limits.questions {
            state.begins = true;
            state.questions += 1;
            tokio::spawn(Arc::clone(self).ask());
        }
    }

    /// Asks questions for as long as keys wait.
    async fn ask(self: Arc<Self>) {
        // The task begins after those that are ready, which may have look-ups as well.
        let mut slot = BatchSlot(Some(&self));
        while let Some(taken) = slot.take() {
            let (keys, waiting): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
            let asked = Asked {
                batcher: &self,
                keys,
            };
            let first = waiting.first().map(|first| first.span.clone());
            let span = first.unwrap_or_else(CurrentSpan::current);
            let answers = span.run(self.question.ask(&asked.keys)).await;
            drop(asked);
            for (answer, waiting) in answers.into_iter().zip(waiting) {
                for sender in waiting.senders {
                    // A request that has left takes nothing from the others.
                    let _ = sender.send(answer.clone());
                }
            }
        }
    }
}

impl<Q: Question> BatcherState<Q> {
    fn add(&mut self, key: Q::Key) -> oneshot::Receiver<Q::Answer> {
        let (sender, answered) = oneshot::channel();
        self.number += 1;
        match self.look_ups.get_mut(&key) {
            Some(waiting) => waiting.senders.push(sender),
            None => {
                self.keys.push_back(key.clone());
                let waiting = Waiting {
                    span: CurrentSpan::current(),
                    senders: vec![sender],
                };
                self.look_ups.insert(key, waiting);
            }
        }
        answered
    }

    /// Takes up to this number of keys that are in no question in flight, without those that no request waits for any
    /// more. Returns them with the number of look-ups that wait no longer.
    fn take(&mut self, most: usize) -> (Taken<Q>, usize) {
        let (mut taken, mut later, before) = (Vec::new(), Vec::new(), self.number);
        while taken.len() < most
            && let Some(key) = self.keys.pop_front()
        {
            if self.asked.contains(&key) {
                later.push(key);
                continue;
            }
            let Some(mut waiting) = self.look_ups.remove(&key) else {
                continue;
            };
            self.number -= waiting.senders.len();
            waiting.senders.retain(|sender| !sender.is_closed());
            if !waiting.senders.is_empty() {
                taken.push((key, waiting));
            }
        }
        for key in later.into_iter().rev() {
            self.keys.push_front(key);
        }
        (taken, before - self.number)
    }
}

/// The slot of a task that asks. Dropping it makes room for another one, also if the question panics.
struct BatchSlot<'a, Q: Question>(Option<&'a Arc<Batcher<Q>>>);

impl<Q: Question> BatchSlot<'_, Q> {
    /// Takes the keys that wait. Without any, the slot is given up under the same lock: no look-up comes in between.
    fn take(&mut self) -> Option<Taken<Q>> {
        let batcher = self.0?;
        let mut state = batcher.state.lock();
        state.begins = false;
        let (taken, left) = state.take(batcher.limits.keys);
        batcher.waiting.dec_by(left.try_into().unwrap_or(u32::MAX));
        if taken.is_empty() {
            state.questions -= 1;
            self.0 = None;
            return None;
        }
        state.asked.extend(taken.iter().map(|(key, _)| key.clone()));
        if !state.keys.is_empty() {
            batcher.begin_another(&mut state);
        }
        Some(taken)
    }
}

impl<Q: Question> Drop for BatchSlot<'_, Q> {
    fn drop(&mut self) {
        if let Some(batcher) = self.0 {
            batcher.state.lock().questions -= 1;
        }
    }
}

/// The keys of a question in flight. Dropping it lets others ask for them.
struct Asked<'a, Q: Question> {
    batcher: &'a Batcher<Q>,
    keys: Vec<Q::Key>,
}

impl<Q: Question> Drop for Asked<'_, Q> {
    fn drop(&mut self) {
        let mut state = self.batcher.state.lock();
        for key in &self.keys {
            state.asked.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        sync::mpsc,
        task::{JoinHandle, yield_now},
    };

    use super::*;

    const LIMITS: Limits = Limits {
        questions: 2,
        keys: 3,
        waiting: 6,
    };

    /// A question that the test answers.
    struct Asking {
        keys: Vec<u32>,
        answer: oneshot::Sender<u32>,
    }

    /// Answers every key with the key plus what the test says.
    struct Sum(mpsc::UnboundedSender<Asking>);

    impl Question for Sum {
        type Key = u32;
        type Answer = u32;

        async fn ask(&self, keys: &[u32]) -> Vec<u32> {
            let (answer, told) = oneshot::channel();
            let keys = keys.to_vec();
            self.0
                .send(Asking {
                    keys: keys.clone(),
                    answer,
                })
                .unwrap();
            let more = told.await.unwrap();
            keys.iter().map(|key| key + more).collect()
        }
    }

    struct Scene {
        batcher: Arc<Batcher<Sum>>,
        questions: mpsc::UnboundedReceiver<Asking>,
    }

    impl Scene {
        fn new() -> Self {
            let (asked, questions) = mpsc::unbounded_channel();
            let batcher = Batcher::new(Sum(asked), LIMITS, Gauge::default());
            Self {
                batcher: Arc::new(batcher),
                questions,
            }
        }

        /// Looks up these keys, and returns once all of them wait or are asked for.
        async fn look_up(&self, keys: &[u32]) -> Vec<JoinHandle<Result<u32, NoAnswer>>> {
            let mut look_ups = Vec::new();
            for key in keys.iter().copied() {
                let batcher = Arc::clone(&self.batcher);
                look_ups.push(tokio::spawn(async move { batcher.look_up(key).await }));
            }
            // Each task runs up to its wait, and then the one that asks.
            for _ in 0..3 {
                yield_now().await;
            }
            look_ups
        }

        /// Waits for a question about these keys.
        async fn asked(&mut self, keys: &[u32]) -> oneshot::Sender<u32> {
            let asking = self.questions.recv().await.unwrap();
            assert_eq!(asking.keys, keys);
            asking.answer
        }

        fn waiting(&self) -> u32 {
            self.batcher.waiting.get()
        }
    }

    async fn answers(look_ups: Vec<JoinHandle<Result<u32, NoAnswer>>>) -> Vec<u32> {
        let mut answers = Vec::new();
        for look_up in look_ups {
            answers.push(look_up.await.unwrap().unwrap());
        }
        answers
    }

    #[tokio::test]
    async fn look_ups_at_the_same_time_are_one_question_and_each_has_its_answer() {
        let mut scene = Scene::new();
        let look_ups = scene.look_up(&[1, 2, 1, 3]).await;
        scene.asked(&[1, 2, 3]).await.send(10).unwrap();
        assert_eq!(answers(look_ups).await, [11, 12, 11, 13]);
        assert!(scene.questions.is_empty());
    }

    #[tokio::test]
    async fn more_keys_than_a_question_takes_are_several_at_once_and_the_rest_waits() {
        let mut scene = Scene::new();
        let first = scene.look_up(&[1, 2, 3, 4]).await;
        let (one, two) = (scene.asked(&[1, 2, 3]).await, scene.asked(&[4]).await);
        let later = scene.look_up(&[5, 6]).await;
        assert!(scene.questions.is_empty());
        assert_eq!(scene.waiting(), 2);
        two.send(10).unwrap();
        scene.asked(&[5, 6]).await.send(20).unwrap();
        assert_eq!(answers(later).await, [25, 26]);
        one.send(10).unwrap();
        assert_eq!(answers(first).await, [11, 12, 13, 14]);
        assert_eq!(scene.waiting(), 0);
    }

    #[tokio::test]
    async fn a_key_is_asked_for_once_at_a_time_and_no_look_up_gets_an_older_answer() {
        let mut scene = Scene::new();
        let first = scene.look_up(&[1]).await;
        let one = scene.asked(&[1]).await;
        let later = scene.look_up(&[1, 1, 2]).await;
        scene.asked(&[2]).await.send(10).unwrap();
        assert!(scene.questions.is_empty(), "1 is being asked for");
        one.send(10).unwrap();
        assert_eq!(answers(first).await, [11]);
        scene.asked(&[1]).await.send(20).unwrap();
        assert_eq!(answers(later).await, [21, 21, 12]);
    }

    #[tokio::test]
    async fn one_look_up_too_many_is_refused() {
        let mut scene = Scene::new();
        let asked = scene.look_up(&[1]).await;
        let one = scene.asked(&[1]).await;
        let waiting = scene.look_up(&[1; LIMITS.waiting]).await;
        assert_eq!(scene.batcher.look_up(2).await, Err(NoAnswer::Full));
        one.send(0).unwrap();
        scene.asked(&[1]).await.send(0).unwrap();
        answers(asked).await;
        answers(waiting).await;
    }

    #[tokio::test]
    async fn requests_that_have_left_are_not_asked_for() {
        let mut scene = Scene::new();
        let first = scene.look_up(&[1, 2]).await;
        let one = scene.asked(&[1, 2]).await;
        let waiting = scene.look_up(&[1, 2]).await;
        waiting[0].abort();
        first[1].abort();
        yield_now().await;
        one.send(10).unwrap();
        scene.asked(&[2]).await.send(20).unwrap();
        let stay = first.into_iter().take(1).chain(waiting.into_iter().skip(1));
        assert_eq!(answers(stay.collect()).await, [11, 22]);
        assert_eq!(scene.waiting(), 0);
    }

    #[tokio::test]
    async fn a_question_that_ends_without_an_answer_keeps_no_key() {
        let mut scene = Scene::new();
        let lost = scene.look_up(&[1]).await;
        // The test panics the question.
        drop(scene.asked(&[1]).await);
        for look_up in lost {
            assert_eq!(look_up.await.unwrap(), Err(NoAnswer::Ended));
        }
        let again = scene.look_up(&[1]).await;
        scene.asked(&[1]).await.send(10).unwrap();
        assert_eq!(answers(again).await, [11]);
    }
}
