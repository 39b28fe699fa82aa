//! The look-ups that wait for a connection, in the order of arrival. Each keeps its place until it is taken or removed.

use std::{collections::VecDeque, mem};

use tokio::{sync::oneshot, time::Instant};

use crate::{
    database::{StoreError, admission::Place},
    telemetry::span::Position,
    trace::TraceContext,
};

/// The look-ups that wait.
pub(super) struct Queue<K, V> {
    /// In the order of their numbers.
    waiting: VecDeque<Waiting<K, V>>,
    /// The number of the next one.
    next: u64,
    /// True while a task waits for a connection on their behalf.
    has_task: bool,
}

/// A look-up that waits.
struct Waiting<K, V> {
    number: u64,
    place: Place,
    key: K,
    request: Request<V>,
}

/// The request that wants the answer to a look-up.
pub(super) struct Request<V> {
    pub(super) position: Position,
    pub(super) answer: oneshot::Sender<Told<V>>,
}

/// The answer to a look-up, as it is told to its request.
pub(super) struct Told<V> {
    pub(super) answer: Result<Option<V>, StoreError>,
    /// The span of the look-up that has the statement as its part, if it is another one.
    pub(super) other: Option<TraceContext>,
}

impl<V> Request<V> {
    /// Tells the answer, unless the request has left.
    pub(super) fn tell(self, answer: Result<Option<V>, StoreError>, other: Option<TraceContext>) {
        let _ = self.answer.send(Told { answer, other });
    }
}

impl<K, V> Default for Queue<K, V> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            next: 0,
            has_task: false,
        }
    }
}

impl<K, V> Queue<K, V> {
    /// Returns true if no look-up waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a look-up, and returns its number. The second value is true if the caller has to start the task.
    pub(super) fn push(&mut self, place: Place, key: K, request: Request<V>) -> (u64, bool) {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting {
            number,
            place,
            key,
            request,
        });
        let has_task = mem::replace(&mut self.has_task, true);
        (number, !has_task)
    }

    /// Returns the time from which on the first one is refused. If none waits, the task has to end.
    pub(super) fn first_end(&mut self) -> Option<Instant> {
        let end = self.waiting.front().map(|first| first.place.end());
        self.has_task = end.is_some();
        end
    }

    /// Takes up to this number of look-ups.
    pub(super) fn take(&mut self, most: usize) -> (Vec<K>, Vec<Request<V>>) {
        let number = self.waiting.len().min(most);
        let taken = self.waiting.drain(..number);
        taken.map(|lookup| (lookup.key, lookup.request)).unzip()
    }

    /// Takes those that are refused from this time on.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<Request<V>> {
        let is_late = |lookup: &Waiting<K, V>| lookup.place.end() <= now;
        let number = self.waiting.partition_point(is_late);
        let late = self.waiting.drain(..number);
        late.map(|lookup| lookup.request).collect()
    }

    /// Removes the look-up of a request that leaves, if it still waits.
    pub(super) fn remove(&mut self, number: u64) {
        let index = self
            .waiting
            .binary_search_by_key(&number, |lookup| lookup.number);
        if let Ok(index) = index {
            self.waiting.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use tokio::time::advance;

    use super::*;
    use crate::database::admission::{Admission, AdmissionMetrics, Lane};

    fn admission() -> Admission {
        Admission::new(1, AdmissionMetrics::register(&mut Registry::default()))
    }

    /// Adds a look-up; returns its number, whether the task has to start, and where the answer arrives.
    fn push(
        queue: &mut Queue<&'static str, ()>,
        admission: &Admission,
        key: &'static str,
    ) -> (u64, bool, oneshot::Receiver<Told<()>>) {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            position: Position::current(),
            answer,
        };
        let place = admission.place(Lane::LookUps).unwrap();
        let (number, starts) = queue.push(place, key, request);
        (number, starts, answered)
    }

    #[tokio::test]
    async fn look_ups_are_taken_in_the_order_of_arrival_and_up_to_a_bound() {
        let (mut queue, admission) = (Queue::default(), admission());
        for key in ["a", "b", "c", "d"] {
            push(&mut queue, &admission, key);
        }
        assert_eq!(queue.take(3).0, ["a", "b", "c"]);
        assert_eq!(queue.take(3).0, ["d"]);
        assert!(queue.take(3).0.is_empty());
    }

    #[tokio::test]
    async fn a_look_up_that_is_removed_takes_no_other_with_it() {
        let (mut queue, admission) = (Queue::default(), admission());
        let numbers = ["a", "b", "c", "d"].map(|key| push(&mut queue, &admission, key).0);
        assert_eq!(queue.take(1).0, ["a"]);
        // The first one is not there any more, and the last one was never there.
        for number in [numbers[2], numbers[2], numbers[0], numbers[3] + 1] {
            queue.remove(number);
        }
        assert_eq!(queue.take(9).0, ["b", "d"]);
    }

    #[tokio::test]
    async fn one_task_serves_the_queue_until_it_is_empty() {
        let (mut queue, admission) = (Queue::default(), admission());
        assert!(queue.first_end().is_none());
        let (number, starts, _) = push(&mut queue, &admission, "a");
        assert!(starts);
        assert!(!push(&mut queue, &admission, "b").1);
        assert!(queue.first_end().is_some());
        queue.take(1);
        assert!(!push(&mut queue, &admission, "c").1, "the task goes on");
        queue.remove(number + 1);
        queue.remove(number + 2);
        assert!(
            !push(&mut queue, &admission, "d").1,
            "the task has not ended"
        );
        queue.take(1);
        assert!(queue.first_end().is_none());
        assert!(push(&mut queue, &admission, "e").1);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_for_too_long_are_the_first_ones() {
        const APART: Duration = Duration::from_millis(10);
        let (mut queue, admission) = (Queue::default(), admission());
        let mut answers = Vec::new();
        for key in ["a", "b", "c"] {
            answers.push(push(&mut queue, &admission, key).2);
            advance(APART).await;
        }
        let first = queue.first_end().unwrap();
        assert!(queue.take_late(first - APART).is_empty());
        let late = queue.take_late(first + APART);
        assert_eq!(late.len(), 2);
        for request in late {
            request.tell(Err(StoreError::Busy), None);
        }
        for answer in &mut answers[..2] {
            let told = answer.try_recv().unwrap();
            assert!(matches!(told.answer, Err(StoreError::Busy)));
        }
        assert!(answers[2].try_recv().is_err());
        assert_eq!(queue.take(9).0, ["c"]);
    }
}
