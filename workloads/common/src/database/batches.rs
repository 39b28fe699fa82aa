//! Look-ups that are read together: one statement reads all names that wait for it.
//!
//! A look-up is sent at once, alone, as long as fewer statements are in flight than there are processors. The others
//! wait for the end of one of these and share the next statement, so a busy program sends fewer statements than it has
//! look-ups. One that has waited for [`PATIENCE`] is sent beside them: a statement that is slow holds up no other, until
//! every connection for look-ups is in use. From then on the bounds of the admission apply.
//!
//! Each statement is sent by a task of its own, so a request that ends early takes no other one with it.

use std::{
    collections::VecDeque, fmt, mem, sync::Arc, thread::available_parallelism, time::Duration,
};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{sync::oneshot, time::timeout};

use super::{
    Beginning, Database, StoreError,
    admission::{Admission, LONGEST_WAIT, Lane, WAITERS},
    away,
};

/// The time for which a look-up waits for the statements in flight before it is sent beside them.
const PATIENCE: Duration = Duration::from_millis(2);
/// The smallest number of statements that are in flight before others wait for them.
const FEWEST: usize = 2;
/// The maximum number of look-ups in a statement. More of them would make each one wait for the slowest of many.
const BATCH: usize = 32;

/// A kind of look-ups.
pub trait LookUp: 'static {
    /// The verb and the table of the statement, which name the spans.
    const SUMMARY: &'static str;
    /// The result for a name that is found.
    type Found: Send + 'static;

    /// Reads these names, which are in ascending order, by one statement. A name may occur more than once. Returns a
    /// result for each of them, in the same order.
    fn read(
        pool: PgPool,
        names: Vec<String>,
    ) -> impl Future<Output = Result<Vec<Option<Self::Found>>, sqlx::Error>> + Send;
}

/// The look-ups of one kind.
pub struct Batches<L: LookUp> {
    database: Database,
    /// The number of statements in flight from which on others wait.
    few: usize,
    /// The maximum number of statements in flight.
    most: usize,
    queue: Mutex<Queue<L::Found>>,
}

struct Queue<T> {
    /// The look-ups that wait for a statement, in the order of arrival.
    waiting: VecDeque<Wanted<T>>,
    /// The number of statements in flight.
    statements: usize,
}

/// A look-up, and the channel for its result.
struct Wanted<T> {
    name: String,
    beginning: Beginning,
    answer: oneshot::Sender<Answer<T>>,
}

/// The result of a look-up, and the number of look-ups in its statement.
type Answer<T> = Result<(Option<T>, usize), StoreError>;

impl<T> Queue<T> {
    /// Takes the look-ups of the next statement, which then counts as one in flight; `None` if none waits or as many
    /// statements as `at_most` are in flight.
    fn start(&mut self, at_most: usize) -> Option<Vec<Wanted<T>>> {
        if self.waiting.is_empty() || self.statements >= at_most {
            return None;
        }
        self.statements += 1;
        Some(self.next())
    }

    /// Takes the look-ups that have waited for longest.
    fn next(&mut self) -> Vec<Wanted<T>> {
        let count = self.waiting.len().min(BATCH);
        self.waiting.drain(..count).collect()
    }
}

impl<L: LookUp> Batches<L> {
    /// Returns the look-ups in this database. They use the connections that its admission has for look-ups.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        let few = processors.max(FEWEST);
        let most = match &database.admission {
            Some(admission) => admission.look_ups,
            None => few,
        };
        Self {
            database,
            few: few.min(most),
            most,
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                statements: 0,
            }),
        }
    }

    /// Reads a name; `None` if it is not found. `beginning` is set before the statement is sent.
    ///
    /// # Errors
    /// Returns the errors of [`Database::look_up`].
    pub async fn find(
        self: &Arc<Self>,
        name: &str,
        beginning: Beginning,
    ) -> Result<Option<L::Found>, StoreError> {
        let answer = self.answer(name, beginning);
        self.database.server.call_in_batch(L::SUMMARY, answer).await
    }

    async fn answer(self: &Arc<Self>, name: &str, beginning: Beginning) -> Answer<L::Found> {
        if self.database.state.borrow().is_none() {
            return Err(away());
        }
        let (answer, mut answered) = oneshot::channel();
        self.add(Wanted {
            name: name.to_owned(),
            beginning: beginning.clone(),
            answer,
        })?;
        if let Ok(answer) = timeout(PATIENCE, &mut answered).await {
            return received(answer);
        }
        if beginning.age().is_none() {
            let batch = self.queue.lock().start(self.most);
            self.send(batch);
            let admission = self.database.admission.as_deref();
            let _waiting = admission.map(Admission::count_waiting);
            if let Ok(answer) = timeout(LONGEST_WAIT, &mut answered).await {
                return received(answer);
            }
            if beginning.age().is_none() {
                return Err(self.refuse(1));
            }
        }
        // The time of a statement is limited.
        received(answered.await)
    }

    /// Adds a look-up to those that wait, and sends it at once if few statements are in flight.
    fn add(self: &Arc<Self>, wanted: Wanted<L::Found>) -> Result<(), StoreError> {
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= WAITERS {
            // Those whose clients have left make room.
            queue.waiting.retain(|other| !other.answer.is_closed());
            if queue.waiting.len() >= WAITERS {
                drop(queue);
                return Err(self.refuse(1));
            }
        }
        queue.waiting.push_back(wanted);
        let batch = queue.start(self.few);
        drop(queue);
        self.send(batch);
        Ok(())
    }

    /// Sends the look-ups of a statement that has started.
    fn send(self: &Arc<Self>, batch: Option<Vec<Wanted<L::Found>>>) {
        if let Some(batch) = batch {
            let statement = Statement {
                batches: Arc::clone(self),
                is_over: false,
            };
            tokio::spawn(statement.run(batch));
        }
    }

    /// Reads these look-ups by one statement, and answers them.
    async fn read(&self, mut batch: Vec<Wanted<L::Found>>) {
        batch.retain(|wanted| !wanted.answer.is_closed());
        if batch.is_empty() {
            return;
        }
        batch.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let name = |wanted: &mut Wanted<_>| mem::take(&mut wanted.name);
        let names: Vec<String> = batch.iter_mut().map(name).collect();
        let read = self.database.try_run(Lane::LookUps, |pool| {
            for wanted in &batch {
                wanted.beginning.note();
            }
            L::read(pool, names)
        });
        let size = batch.len();
        match read.await {
            Ok(found) => {
                for (wanted, found) in batch.into_iter().zip(found) {
                    // A receiver is gone if its request has ended.
                    let _ = wanted.answer.send(Ok((found, size)));
                }
            }
            Err(error) => {
                if matches!(error, StoreError::Busy) {
                    // The admission has counted one.
                    self.refuse(size - 1);
                }
                for wanted in batch {
                    let _ = wanted.answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Counts refused look-ups, and returns their error.
    fn refuse(&self, look_ups: usize) -> StoreError {
        match &self.database.admission {
            Some(admission) => admission.refuse(Lane::LookUps, look_ups),
            None => StoreError::Busy,
        }
    }
}

impl<L: LookUp> fmt::Debug for Batches<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// A statement in flight, and those that follow it on its connection.
struct Statement<L: LookUp> {
    batches: Arc<Batches<L>>,
    /// True once it no longer counts as one in flight.
    is_over: bool,
}

impl<L: LookUp> Statement<L> {
    /// Reads these look-ups, and then all that have come meanwhile.
    async fn run(mut self, mut batch: Vec<Wanted<L::Found>>) {
        loop {
            self.batches.read(batch).await;
            match self.next() {
                Some(next) => batch = next,
                None => return,
            }
        }
    }

    /// Takes the next look-ups; without any, the statement is over.
    fn next(&mut self) -> Option<Vec<Wanted<L::Found>>> {
        let mut queue = self.batches.queue.lock();
        let next = queue.next();
        if next.is_empty() {
            queue.statements -= 1;
            self.is_over = true;
            return None;
        }
        Some(next)
    }
}

impl<L: LookUp> Drop for Statement<L> {
    /// Makes room for another statement if the task panicked.
    fn drop(&mut self) {
        if !self.is_over {
            self.batches.queue.lock().statements -= 1;
        }
    }
}

/// Returns the answer to a look-up. There is none if the task of its statement panicked.
fn received<T>(answer: Result<Answer<T>, oneshot::error::RecvError>) -> Answer<T> {
    answer.unwrap_or_else(|_| {
        let reason = "the look-up was lost".to_owned();
        Err(StoreError::Unavailable(reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds look-ups of these names; returns the receivers of their answers.
    fn ask(queue: &mut Queue<()>, names: &[&str]) -> Vec<oneshot::Receiver<Answer<()>>> {
        let asked = names.iter().map(|name| {
            let (answer, answered) = oneshot::channel();
            queue.waiting.push_back(Wanted {
                name: (*name).to_owned(),
                beginning: Beginning::default(),
                answer,
            });
            answered
        });
        asked.collect()
    }

    fn queue() -> Queue<()> {
        Queue {
            waiting: VecDeque::new(),
            statements: 0,
        }
    }

    fn names(batch: Vec<Wanted<()>>) -> Vec<String> {
        batch.into_iter().map(|wanted| wanted.name).collect()
    }

    #[test]
    fn look_ups_are_sent_alone_until_some_are_in_flight_and_then_together() {
        let mut queue = queue();
        for name in ["a", "b"] {
            let _asked = ask(&mut queue, &[name]);
            assert_eq!(names(queue.start(2).unwrap()), [name]);
        }
        let _asked = ask(&mut queue, &["c", "d"]);
        assert!(queue.start(2).is_none(), "two statements are in flight");
        assert_eq!(names(queue.next()), ["c", "d"]);
        assert!(queue.next().is_empty());
    }

    #[test]
    fn a_look_up_that_waited_takes_those_before_it_along_and_leaves_the_rest() {
        let mut queue = queue();
        let many: Vec<String> = (0..=BATCH).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        queue.statements = 2;
        let _asked = ask(&mut queue, &many);
        assert_eq!(names(queue.start(3).unwrap()), many[..BATCH]);
        assert!(queue.start(3).is_none(), "every connection is in use");
        assert_eq!(names(queue.next()), many[BATCH..]);
        assert!(queue.start(8).is_none(), "nothing waits");
        assert_eq!(queue.statements, 3);
    }
}
